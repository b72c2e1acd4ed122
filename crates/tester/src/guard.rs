//! Sends Sets, but only after the journal has saved the values that a Set may change.

use core::marker::PhantomData;

use verbatim_record::{Entry, Label, Role};
use verbatim_wire::values::{LinkSpeedExt, LinkSpeeds, LinkWidths};
use verbatim_wire::{
    Attribute, GuidInfo, Layout, LedInfo, LinkDownDefault, MKey, Mad, Method, NodeDescription, NodeInfo, PKeyTable,
    PhysState, PortInfo, PortState, SlToVlMappingTable, Status, VlArbitrationTable, VlCap,
};

use crate::exchange::{BUSY_TRIES, busy_pause};
use crate::journal::{Area, Part};
use crate::stop::{Step, Stop};
use crate::tester::{Answer, TRIES, Tester, refused};

/// An attribute that a Set can carry. An *image* is the value of the attribute in a Set.
pub trait Settable: Attribute {
    /// Fields that a restore cannot write back, such as a counter that a Set can only clear.
    const NOT_RESTORABLE: &'static [&'static str] = &[];
    /// Fields that the device or its link changes without a Set. A restore ignores them.
    const ITS_OWN: &'static [&'static str] = &[];
    /// Fields that a host or new firmware may change, but no Set. A restore reports the change but does not fail.
    const READ_ONLY: &'static [&'static str] = &[];

    /// Returns the image with the no-change value in every field that defines a no-change value.
    #[must_use]
    fn quiet(self) -> Self {
        self
    }

    /// Returns the image that restores `found` on a device whose present value is `now`. The image is
    /// `found.quiet()`, except that fields that differ carry the value of `found` instead of the no-change value.
    #[must_use]
    fn explicit(found: &Self, _now: &Self) -> Self {
        found.quiet()
    }

    /// Returns the image that a Set carries: the values of `last` replace the placeholders in fields without a
    /// no-change value.
    #[must_use]
    fn with_last_read(self, _last: &Self) -> Self {
        self
    }

    /// Returns the image with each illegal field value replaced by the field's value in `now`. A value is illegal if no
    /// Set may carry it.
    #[must_use]
    fn writable(self, _now: &Self) -> Self {
        self
    }

    /// Whether a restore may leave a field changed, because a device may refuse a Set to the found value.
    fn may_stay(&self, field: &str) -> bool {
        Self::NOT_RESTORABLE.contains(&field)
    }

    /// Whether the table names VLs that are not operational. A device may refuse or correct such a table in a Set, even
    /// if the device held this table before the run.
    fn names_foreign_vls(&self, _port: &PortInfo) -> bool {
        false
    }

    /// Returns the M_Key and the lease period in seconds that a Set of this value puts in force.
    fn key_and_lease(&self) -> Option<(MKey, u16)> {
        None
    }
}

/// Placeholder in an image for the last read value of a violation counter. No Set carries the placeholder.
const AS_READ_LAST: u16 = u16::MAX;

impl Settable for PortInfo {
    const NOT_RESTORABLE: &'static [&'static str] = Self::VIOLATIONS;
    const ITS_OWN: &'static [&'static str] = Self::MOVED_BY_PORT;
    const READ_ONLY: &'static [&'static str] = &[
        "CapabilityMask",
        "CapabilityMask2",
        "GUIDCap",
        "LinkSpeedExtSupported",
        "LinkSpeedExtSupported2",
        "LinkSpeedSupported",
        "LinkWidthSupported",
        "MTUCap",
        "RespTimeValue",
        "VLArbitrationHighCap",
        "VLArbitrationLowCap",
        "VLCap",
    ];

    fn quiet(self) -> Self {
        self.with_port_state(PortState::NO_CHANGE)
            .with_port_physical_state(PhysState::NO_CHANGE)
            .with_link_down_default_state(LinkDownDefault::NO_CHANGE)
            .with_link_width_enabled(LinkWidths(0))
            .with_link_speed_enabled(LinkSpeeds(0))
            .with_link_speed_ext_enabled(LinkSpeedExt(0))
            .with_link_speed_ext_enabled_2(0)
            .with_operational_vls(VlCap::NO_CHANGE)
            .with_client_reregister(false)
            .with_m_key_violations(AS_READ_LAST)
            .with_p_key_violations(AS_READ_LAST)
            .with_q_key_violations(AS_READ_LAST)
    }

    // The specification does not define what writing a nonzero value to a violation counter does. The tester writes the
    // value last read, as OpenSM does.
    fn with_last_read(self, last: &Self) -> Self {
        let counters = Self::NOT_RESTORABLE.iter().copied();
        let as_read: Vec<_> = counters
            .filter(|name| Self::field(name).bits(self.bytes(), 0) == u64::from(AS_READ_LAST))
            .collect();
        self.with_fields_of(last, &as_read)
    }

    // A port without an assigned LID reports LID 0 or 0xFFFF. No Set may assign these LIDs.
    fn writable(self, now: &Self) -> Self {
        let unassigned: Vec<_> = ADDRESSES
            .into_iter()
            .filter(|name| is_unassigned(&self, name))
            .collect();
        self.with_fields_of(now, &unassigned)
    }

    fn may_stay(&self, field: &str) -> bool {
        Self::NOT_RESTORABLE.contains(&field) || is_unassigned(self, field)
    }

    fn explicit(found: &Self, now: &Self) -> Self {
        const NO_CHANGE: [&str; 6] = [
            "LinkDownDefaultState",
            "LinkWidthEnabled",
            "LinkSpeedEnabled",
            "LinkSpeedExtEnabled",
            "LinkSpeedExtEnabled2",
            "OperationalVLs",
        ];
        let differs = found.differences(now).into_iter().map(|of| of.field.name);
        let mut names: Vec<_> = differs.filter(|name| NO_CHANGE.contains(name)).collect();
        // A port may treat LinkSpeedExtEnabled and LinkSpeedExtEnabled2 as one field: a Set of only one of them would
        // disable the highest speeds.
        if names.iter().any(|name| name.starts_with("LinkSpeedExtEnabled")) {
            names.extend(["LinkSpeedExtEnabled", "LinkSpeedExtEnabled2"]);
        }
        found.quiet().with_fields_of(found, &names)
    }

    fn key_and_lease(&self) -> Option<(MKey, u16)> {
        Some((self.m_key(), self.m_key_lease_period().0))
    }
}

/// LID fields that contain no unicast LID until a subnet manager assigns one.
const ADDRESSES: [&str; 2] = ["LID", "MasterSMLID"];

/// Whether the field is an address that no subnet manager has assigned.
fn is_unassigned(port: &PortInfo, field: &str) -> bool {
    let lid = || match field {
        "LID" => port.lid(),
        _ => port.master_sm_lid(),
    };
    ADDRESSES.contains(&field) && !lid().is_unicast()
}

/// Returns the number of operational data VLs.
fn operational(port: &PortInfo) -> u8 {
    let vls = port.operational_vls().data_vls().or(port.vl_cap().data_vls());
    vls.unwrap_or(1)
}

impl Settable for VlArbitrationTable {
    fn names_foreign_vls(&self, port: &PortInfo) -> bool {
        (0..32).any(|entry| self.vl(entry) >= operational(port))
    }
}
impl Settable for NodeDescription {}
impl Settable for NodeInfo {
    const ITS_OWN: &'static [&'static str] = &["LocalPortNum"];
}
impl Settable for GuidInfo {}
impl Settable for PKeyTable {}
impl Settable for SlToVlMappingTable {
    // VL 15 in this table is no foreign VL: it means that packets of the SL are dropped.
    fn names_foreign_vls(&self, port: &PortInfo) -> bool {
        (0..16).any(|sl| (operational(port)..15).contains(&self.vl(sl)))
    }
}
impl Settable for LedInfo {}

/// The image of a Set that changes nothing except the fields changed by [`Quiet::change`].
#[derive(Clone, Copy, Debug)]
pub struct Quiet<A>(A);

impl<A: Settable> Quiet<A> {
    /// Applies `change` to the image.
    #[must_use]
    pub fn change(self, change: impl FnOnce(A) -> A) -> Self {
        Self(change(self.0))
    }

    /// Returns the image that the Set will carry.
    #[must_use]
    pub fn get(&self) -> &A {
        &self.0
    }
}

/// Proof that the journal has saved an area. Every Set requires this proof.
#[derive(Debug)]
pub struct Guarded<A> {
    found: Vec<(u32, A)>,
    attribute: PhantomData<A>,
}

impl<A: Settable> Guarded<A> {
    /// Returns the found value of the first part that the device has.
    #[must_use]
    pub fn found(&self) -> &A {
        &self.found[0].1
    }

    /// Returns the value found at an AttributeModifier.
    #[must_use]
    pub fn found_at(&self, modifier: u32) -> Option<&A> {
        self.found.iter().find(|(m, _)| *m == modifier).map(|(_, value)| value)
    }

    /// Returns the image that a Set starts from: the found value after [`Settable::quiet`].
    #[must_use]
    pub fn quiet(&self) -> Quiet<A> {
        Quiet(self.found().quiet())
    }

    /// Returns the image that a Set of `modifier` starts from. It starts from an all-zero value if the device lacks
    /// that part.
    #[must_use]
    pub fn quiet_at(&self, modifier: u32) -> Quiet<A> {
        Quiet(self.found_at(modifier).copied().unwrap_or_default().quiet())
    }
}

/// An area that this run may have changed.
#[derive(Clone, Debug)]
pub(crate) struct AreaState {
    pub(crate) area: Area,
    pub(crate) parts: Vec<Part>,
}

impl Tester<'_> {
    /// Reads an attribute with `key` and saves it in the journal. A Set may then change the attribute.
    ///
    /// # Errors
    /// When the attribute cannot be read, or the journal cannot be written.
    pub fn guard<A: Settable>(&mut self, label: Label<A>, key: MKey) -> Step<Guarded<A>> {
        self.guard_parts(label, key, &[0])
    }

    /// Reads the parts of an attribute at `modifiers`. Saves the parts that the device has in the journal.
    ///
    /// # Errors
    /// When no part can be read, or the journal cannot be written.
    pub fn guard_parts<A: Settable>(&mut self, label: Label<A>, key: MKey, modifiers: &[u32]) -> Step<Guarded<A>> {
        let mut found = Vec::new();
        let mut refusal = None;
        for &modifier in modifiers {
            match self.ask_at(label, key, modifier)? {
                Some(Answer {
                    status: Status::OK,
                    value,
                    ..
                }) => found.push((modifier, value)),
                // The busy device did not return the value, so a restore could not write the value back.
                Some(answer) if answer.status == Status::BUSY => return Err(refused(label.name, answer.status)),
                Some(answer) => refusal = Some(answer.status),
                None => return Err(Stop::NoAnswer(label.name.into())),
            }
        }
        if found.is_empty() {
            return Err(refused(label.name, refusal.unwrap_or_default()));
        }
        let area = Area {
            attribute: A::ID.0,
            name: format!(
                "{} of the {} port",
                A::NAME,
                if self.own { "tester's own" } else { "receiving" }
            ),
            own: self.own,
        };
        let parts: Vec<Part> = found
            .iter()
            .map(|(modifier, value): &(u32, A)| Part {
                modifier: *modifier,
                data: value.bytes().to_vec(),
            })
            .collect();
        let parts = self
            .journal
            .save(&area, &parts, &self.keys)
            .map_err(|error| Stop::Tester(format!("nothing was changed on the device: {error}")))?;
        self.sink.put(Entry::Journal {
            area: area.name.clone(),
            change: "saved".into(),
        });
        self.areas.push(AreaState { area, parts });
        Ok(Guarded {
            found,
            attribute: PhantomData,
        })
    }

    /// Checks whether the device accepts its own table in a Set, if the table names VLs that are not operational. Call
    /// this before the procedure changes anything. If the device refuses or corrects the table, returns the reason, and
    /// the tester does not restore the table.
    ///
    /// # Errors
    /// As [`Tester::set`], and when the table cannot be read.
    pub fn not_taken_back<A: Settable>(
        &mut self,
        (set, get): (Label<A>, Label<A>),
        guard: &Guarded<A>,
    ) -> Step<Option<String>> {
        let port = self.shown();
        for (modifier, found) in guard.found.iter().filter(|(_, found)| found.names_foreign_vls(&port)) {
            let answer = self.set_at(set, guard, *modifier, Quiet(*found))?;
            let now = self.get_at(get, self.key(), *modifier)?;
            let refusal = answer.map_or(Status::OK, |answer| answer.status);
            let does = match refusal {
                Status::OK if now.bytes() == found.bytes() => continue,
                Status::OK => "corrects the table".to_string(),
                status => format!("refuses the table ({status})"),
            };
            if let Some(place) = self
                .areas
                .iter()
                .rposition(|state| state.area.attribute == A::ID.0 && state.area.own == self.own)
            {
                let state = self.areas.remove(place);
                self.settle(&state.area);
            }
            return Ok(Some(format!(
                "the {} of the DUT's device names VLs that are not operational, and the device {does} when the tester \
                 writes it back: the tester leaves it unchanged; set a table of operational VLs first",
                A::NAME
            )));
        }
        Ok(None)
    }

    /// Sets an attribute with the M_Key in force. Returns `None` if the response was lost but a later read shows the
    /// new M_Key.
    ///
    /// # Errors
    /// [`Stop::NoAnswer`] after three tries without a response.
    pub fn set<A: Settable>(
        &mut self,
        label: Label<A>,
        guard: &Guarded<A>,
        value: Quiet<A>,
    ) -> Step<Option<Answer<A>>> {
        self.set_at(label, guard, 0, value)
    }

    /// Sets an attribute at an AttributeModifier, like [`Tester::set`].
    ///
    /// # Errors
    /// As [`Tester::set`].
    pub fn set_at<A: Settable>(
        &mut self,
        label: Label<A>,
        guard: &Guarded<A>,
        modifier: u32,
        value: Quiet<A>,
    ) -> Step<Option<Answer<A>>> {
        let old = self.key();
        let new = value
            .get()
            .key_and_lease()
            .map(|(key, _)| key)
            .filter(|key| *key != old && !self.own);
        let (mut silences, mut busy) = (0, 0);
        while silences < TRIES {
            let mad = self.prepared(guard, (self.key(), modifier), value)?;
            let attempt = silences + busy;
            let answer = match new {
                Some(_) => self.exchange_once(label, attempt, &mad)?,
                None => self.exchange(label, attempt, &mad)?,
            };
            if let Some(answer) = answer {
                if new.is_some() && answer.status == Status::BUSY && busy + 1 < BUSY_TRIES {
                    self.pause(busy_pause(busy))?;
                    busy += 1;
                    // The device may have applied the Set although it answered busy. The old M_Key would then be wrong.
                    if let Some(new) = new
                        && self.shows_key(new)?
                    {
                        self.put_in_force(new);
                    }
                    continue;
                }
                if let Some(new) = new {
                    // A device may apply the legal fields of a Set that it refuses.
                    if answer.status == Status::OK || self.shows_key(new)? {
                        self.put_in_force(new);
                    }
                }
                return Ok(Some(answer));
            }
            // Reads before the repetition: if the unanswered Set did change the M_Key, a repetition would count as a
            // violation.
            if let Some(new) = new
                && self.shows_key(new)?
            {
                self.put_in_force(new);
                return Ok(None);
            }
            silences += 1;
        }
        Err(Stop::NoAnswer(label.name.into()))
    }

    /// Sets an attribute with any M_Key and modifier, without retries after silence. Use this if the device would count
    /// a repetition, for example as an M_Key violation.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn set_once<A: Settable>(
        &mut self,
        label: Label<A>,
        guard: &Guarded<A>,
        (key, modifier): (MKey, u32),
        value: Quiet<A>,
    ) -> Step<Option<Answer<A>>> {
        let mad = self.prepared(guard, (key, modifier), value)?;
        self.exchange(label, 0, &mad)
    }

    /// Sets an attribute with any M_Key and modifier, in up to three tries. Use this if a repetition does no harm.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn set_with<A: Settable>(
        &mut self,
        label: Label<A>,
        guard: &Guarded<A>,
        (key, modifier): (MKey, u32),
        value: Quiet<A>,
    ) -> Step<Option<Answer<A>>> {
        let mad = self.prepared(guard, (key, modifier), value)?;
        self.try_thrice(label, &mad)
    }

    /// Makes the MAD of a Set, after the journal has stored the M_Key and lease that the Set may put in force.
    pub(crate) fn prepared<A: Settable>(
        &mut self,
        _guard: &Guarded<A>,
        (key, modifier): (MKey, u32),
        value: Quiet<A>,
    ) -> Step<Mad> {
        if let Some((new, lease)) = value.get().key_and_lease().filter(|_| !self.own) {
            // Whether or not the Set succeeds, a restore must know every M_Key that may be in force and the longest
            // lease to wait for.
            if !self.keys.contains(&new) {
                self.keys.push(new);
            }
            // The M_Key that this Set puts in force comes first, as the likeliest.
            let mut keys = self.keys.clone();
            keys.retain(|known| *known != new);
            keys.insert(0, new);
            self.journal
                .may_be_in_force(&keys, lease)
                .map_err(|error| Stop::Tester(format!("the Set was not sent: {error}")))?;
        }
        Ok(self.set_mad(key, modifier, &value.0))
    }

    /// Makes the MAD of a Set of `image`. The values that the port showed last replace the placeholders of the image.
    pub(crate) fn set_mad<A: Settable>(&self, key: MKey, modifier: u32, image: &A) -> Mad {
        let shown = self.shown.get(&modifier).or_else(|| self.shown.get(&0));
        let shown = if self.own { Some(&self.shown_own) } else { shown };
        let carried = match shown {
            Some(port) if A::ID == PortInfo::ID => image.with_last_read(&A::from_bytes(port.bytes())),
            _ => *image,
        };
        let blank = self.mad::<A>(Method::SET, modifier).with_m_key(key);
        blank.with_data(carried.bytes())
    }

    /// Moves the M_Key that is most likely in force to the front of the candidates.
    pub(crate) fn put_in_force(&mut self, key: MKey) {
        self.keys.retain(|known| *known != key);
        self.keys.insert(0, key);
    }

    fn shows_key(&mut self, key: MKey) -> Step<bool> {
        const LABEL: Label<PortInfo> = Label::new("which M_Key is in force");
        let role = core::mem::replace(&mut self.role, Role::Runner);
        // Up to three tries: a single lost response must not make the M_Key in force look wrong.
        let shown = self.ask_at(LABEL, key, 0);
        self.role = role;
        self.check_stop()?;
        // At protect level 1 a hidden M_Key reads as 0 and looks like M_Key 0.
        let shows = |info: &PortInfo| info.m_key() == key && (key != MKey(0) || info.protect_bits().0 != 1);
        Ok(shown?.is_some_and(|answer| shows(&answer.value)))
    }
}
