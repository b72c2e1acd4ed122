//! Sets: none leaves without a journal entry of what it may change.

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

/// An attribute that a Set can carry.
pub trait Settable: Attribute {
    /// Fields that only a Set of one value changes, such as counters: they cannot be restored.
    const NOT_RESTORABLE: &'static [&'static str] = &[];
    /// Fields that the device or its link changes by itself: never compared.
    const ITS_OWN: &'static [&'static str] = &[];
    /// Fields that no Set changes, but a host or new firmware may: told when they moved, and not waited for.
    const READ_ONLY: &'static [&'static str] = &[];

    /// The same with the no-change value in every field that has one.
    #[must_use]
    fn quiet(self) -> Self {
        self
    }

    /// The same as `found.quiet()`, but with `found`'s value in each field that has a no-change value and differs in `now`.
    #[must_use]
    fn explicit(found: &Self, _now: &Self) -> Self {
        found.quiet()
    }

    /// The same with the value read last in the fields that have no value which changes nothing: what a Set carries.
    #[must_use]
    fn with_last_read(self, _last: &Self) -> Self {
        self
    }

    /// The same with `now`'s value in the fields whose value can be one that no Set may carry.
    #[must_use]
    fn writable(self, _now: &Self) -> Self {
        self
    }

    /// Whether a field may be left as it is now, because a device need not take back the value that was found.
    fn may_stay(&self, field: &str) -> bool {
        Self::NOT_RESTORABLE.contains(&field)
    }

    /// Whether it names VLs that are not operational, which a device may refuse or correct though it was found with
    /// them.
    fn names_foreign_vls(&self, _port: &PortInfo) -> bool {
        false
    }

    /// The M_Key and lease that a Set of it puts in force.
    fn key_and_lease(&self) -> Option<(MKey, u16)> {
        None
    }
}

/// Stands in an image for the value that a violation counter was read with last; it never leaves.
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

    // What a violation counter becomes by another value than 0 is not laid down: OpenSM, too, writes what it read.
    fn with_last_read(self, last: &Self) -> Self {
        let counters = Self::NOT_RESTORABLE.iter().copied();
        let as_read: Vec<_> = counters
            .filter(|name| Self::field(name).bits(self.bytes(), 0) == u64::from(AS_READ_LAST))
            .collect();
        self.with_fields_of(last, &as_read)
    }

    // Where no LID was assigned, LID 0 or 0xFFFF was found, and is none that a Set may assign.
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
        // A port may read both as one field: one without the other would switch the highest speeds off.
        if names.iter().any(|name| name.starts_with("LinkSpeedExtEnabled")) {
            names.extend(["LinkSpeedExtEnabled", "LinkSpeedExtEnabled2"]);
        }
        found.quiet().with_fields_of(found, &names)
    }

    fn key_and_lease(&self) -> Option<(MKey, u16)> {
        Some((self.m_key(), self.m_key_lease_period().0))
    }
}

/// What a subnet manager assigns; no unicast LID when none did.
const ADDRESSES: [&str; 2] = ["LID", "MasterSMLID"];

/// Whether the field is an address that nobody assigned.
fn is_unassigned(port: &PortInfo, field: &str) -> bool {
    let lid = || match field {
        "LID" => port.lid(),
        _ => port.master_sm_lid(),
    };
    ADDRESSES.contains(&field) && !lid().is_unicast()
}

/// Data VLs that are operational.
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
    // VL 15 stands for: drop it.
    fn names_foreign_vls(&self, port: &PortInfo) -> bool {
        (0..16).any(|sl| (operational(port)..15).contains(&self.vl(sl)))
    }
}
impl Settable for LedInfo {}

/// A value that a Set may carry: it changes only what [`Quiet::change`] names.
#[derive(Clone, Copy, Debug)]
pub struct Quiet<A>(A);

impl<A: Settable> Quiet<A> {
    /// Changes fields on purpose.
    #[must_use]
    pub fn change(self, change: impl FnOnce(A) -> A) -> Self {
        Self(change(self.0))
    }

    /// What the Set will carry.
    #[must_use]
    pub fn get(&self) -> &A {
        &self.0
    }
}

/// Proof that an area is in the journal; a Set demands it.
#[derive(Debug)]
pub struct Guarded<A> {
    found: Vec<(u32, A)>,
    attribute: PhantomData<A>,
}

impl<A: Settable> Guarded<A> {
    /// What was found with modifier 0, or the first part that was there.
    #[must_use]
    pub fn found(&self) -> &A {
        &self.found[0].1
    }

    /// What was found with that modifier.
    #[must_use]
    pub fn found_at(&self, modifier: u32) -> Option<&A> {
        self.found.iter().find(|(m, _)| *m == modifier).map(|(_, value)| value)
    }

    /// What was found, with no-change values: the image that a Set starts from.
    #[must_use]
    pub fn quiet(&self) -> Quiet<A> {
        Quiet(self.found().quiet())
    }

    /// The image that a Set of another modifier starts from: all 0 where nothing was found.
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
    /// Reads an attribute with the right key and puts it into the journal. From here on it may be Set.
    ///
    /// # Errors
    /// When it cannot be read, or the journal cannot be written.
    pub fn guard<A: Settable>(&mut self, label: Label<A>, key: MKey) -> Step<Guarded<A>> {
        self.guard_parts(label, key, &[0])
    }

    /// Reads all parts of an attribute and puts those that the device has into the journal.
    ///
    /// # Errors
    /// When none can be read, or the journal cannot be written.
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
                // A part that is there and not known could not be given back.
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
            name: format!("{} of the receiving port", A::NAME),
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

    /// Sets a table that was found with VLs which are not operational to what it is, before anything is changed. When
    /// the device does not take that back, the table is left alone from here on: then why it is.
    ///
    /// # Errors
    /// As [`Tester::set`], and when it cannot be read.
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
                Status::OK => "corrects it".to_string(),
                status => format!("refuses it ({status})"),
            };
            if let Some(place) = self.areas.iter().rposition(|state| state.area.attribute == A::ID.0) {
                let state = self.areas.remove(place);
                self.settle(&state.area);
            }
            return Ok(Some(format!(
                "the DUT's device was found with VLs that are not operational in its {}, and {does} when it is set to \
                 what it \
                 is: it is left alone; give it a table of operational VLs first",
                A::NAME
            )));
        }
        Ok(None)
    }

    /// Sets an attribute with the M_Key in force. `None` when the answer was lost but a later read shows the new key.
    ///
    /// # Errors
    /// [`Stop::NoAnswer`] after three silences.
    pub fn set<A: Settable>(
        &mut self,
        label: Label<A>,
        guard: &Guarded<A>,
        value: Quiet<A>,
    ) -> Step<Option<Answer<A>>> {
        self.set_at(label, guard, 0, value)
    }

    /// The same with a modifier.
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
            .filter(|key| *key != old);
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
                    // It may have been done all the same, and the old key be a wrong one by now.
                    if let Some(new) = new
                        && self.shows_key(new)?
                    {
                        self.put_in_force(new);
                    }
                    continue;
                }
                if let Some(new) = new {
                    // A refused Set may have applied its legal fields all the same.
                    if answer.status == Status::OK || self.shows_key(new)? {
                        self.put_in_force(new);
                    }
                }
                return Ok(Some(answer));
            }
            // Repeating a Set that did change the key would count as a violation: look first.
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

    /// Sets an attribute once, with any M_Key and modifier: where a repetition would count twice.
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

    /// Sets an attribute with any M_Key: up to three tries, where a repetition does no harm.
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

    /// The Set, once the journal knows what it may change.
    pub(crate) fn prepared<A: Settable>(
        &mut self,
        _guard: &Guarded<A>,
        (key, modifier): (MKey, u32),
        value: Quiet<A>,
    ) -> Step<Mad> {
        if let Some((new, lease)) = value.get().key_and_lease() {
            // Whatever comes of this Set, a restorer must know every key that may be in force, and how long a
            // lease it would have to wait for.
            if !self.keys.contains(&new) {
                self.keys.push(new);
            }
            // The likeliest first: the one that this Set puts in force.
            let mut keys = self.keys.clone();
            keys.retain(|known| *known != new);
            keys.insert(0, new);
            self.journal
                .may_be_in_force(&keys, lease)
                .map_err(|error| Stop::Tester(format!("the Set was not sent: {error}")))?;
        }
        Ok(self.set_mad(key, modifier, &value.0))
    }

    /// The Set of an image, with what the port showed last where the image stands for that.
    pub(crate) fn set_mad<A: Settable>(&self, key: MKey, modifier: u32, image: &A) -> Mad {
        let shown = self.shown.get(&modifier).or_else(|| self.shown.get(&0));
        let carried = match shown {
            Some(port) if A::ID == PortInfo::ID => image.with_last_read(&A::from_bytes(port.bytes())),
            _ => *image,
        };
        let blank = self.mad::<A>(Method::SET, modifier).with_m_key(key);
        blank.with_data(carried.bytes())
    }

    /// Makes a key the likeliest one.
    pub(crate) fn put_in_force(&mut self, key: MKey) {
        self.keys.retain(|known| *known != key);
        self.keys.insert(0, key);
    }

    fn shows_key(&mut self, key: MKey) -> Step<bool> {
        const LABEL: Label<PortInfo> = Label::new("which M_Key is in force");
        let role = core::mem::replace(&mut self.role, Role::Runner);
        // Asked again when unanswered: a lost answer must not make the key in force look like another.
        let shown = self.ask_at(LABEL, key, 0);
        self.role = role;
        self.check_stop()?;
        // At level 1 a key that is hidden shows as 0, and looks like key 0.
        let shows = |info: &PortInfo| info.m_key() == key && (key != MKey(0) || info.protect_bits().0 != 1);
        Ok(shown?.is_some_and(|answer| shows(&answer.value)))
    }
}
