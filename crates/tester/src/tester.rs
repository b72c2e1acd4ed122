//! The tester: the interface that a procedure calls.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use verbatim_record::{Entry, Label, Note, OWN_PORT, Role, Sink, Span, Time};
use verbatim_wire::{
    Attribute, AttributeId, Lid, MKey, Mad, Method, Notice, PortInfo, RespTime, Status, SubnetTimeout,
};

use crate::exchange::{BUSY_TRIES, Outstanding, State};
use crate::guard::AreaState;
use crate::journal::Journal;
use crate::peer::PeerState;
use crate::random::Stream;
use crate::rig::{Arrival, PortId, Rig, RigInfo, Route, Stimulus};
use crate::runner::Case;
use crate::stop::{Step, Stop};

/// Number of tries of an exchange that must be answered. Only repeated silence shows that the device does not respond.
pub(crate) const TRIES: u32 = verbatim_record::TRIES;

/// A response: its status and its attribute.
#[derive(Clone, Copy, Debug)]
pub struct Answer<A> {
    /// Status.
    pub status: Status,
    /// The attribute.
    pub value: A,
    /// Time of arrival.
    pub at: Span,
}

/// The interface that a procedure calls. Each run of a test has its own `Tester`.
pub struct Tester<'r> {
    pub(crate) rig: &'r mut dyn Rig,
    pub(crate) info: &'r RigInfo,
    pub(crate) sink: &'r mut dyn Sink,
    pub(crate) journal: &'r mut dyn Journal,
    pub(crate) case: &'r Case<'r>,
    pub(crate) role: Role,
    /// The rig's port that sends the procedure's requests.
    pub(crate) port: PortId,
    /// The rig's port that sends the runner's own reads; port 0 if `None`.
    pub(crate) reads_at: Option<PortId>,
    /// Whether SMPs go to the tester's own port; else to the DUT.
    pub(crate) own: bool,
    /// The last PortInfo of the tester's own port.
    pub(crate) shown_own: PortInfo,
    /// The destination LID of the procedure's SMPs; the rig's route if `None`.
    pub(crate) to: Option<Lid>,
    pub(crate) labels: Vec<(&'static str, Role)>,
    pub(crate) id_base: u32,
    /// The upper 32 bits of all transaction IDs.
    pub(crate) id_upper: u64,
    pub(crate) states: Vec<State>,
    /// Maximum number of outstanding MADs: the rig's limit, or less if the port has fewer buffers.
    pub(crate) window: usize,
    pub(crate) outstanding: VecDeque<Outstanding>,
    pub(crate) resp_time: RespTime,
    pub(crate) subnet_timeout: SubnetTimeout,
    /// The last received trap.
    pub(crate) last_trap: Option<Mad>,
    pub(crate) trap_keys: Vec<MKey>,
    /// The field in which the last mismatched response differed from the expected response, if only one field differed.
    pub(crate) nearly: Option<&'static str>,
    /// The last PortInfo that the device returned, by AttributeModifier.
    pub(crate) shown: BTreeMap<u32, PortInfo>,
    /// Every M_Key that may be in force, the likeliest first.
    pub(crate) keys: Vec<MKey>,
    pub(crate) areas: Vec<AreaState>,
    pub(crate) stopped: Option<Stop>,
    pub(crate) peer: PeerState,
}

impl core::fmt::Debug for Tester<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Tester({} at {})", self.case.test.id, self.rig.now())
    }
}

impl<'r> Tester<'r> {
    pub(crate) fn new(
        rig: &'r mut dyn Rig,
        info: &'r RigInfo,
        sink: &'r mut dyn Sink,
        journal: &'r mut dyn Journal,
        case: &'r Case<'r>,
    ) -> Self {
        // Transaction IDs differ between runs, so that a late response to a request of an earlier run matches no
        // request.
        let ids = Stream::new(case.seed, case.test.id, "transaction ids").bits();
        let id_base = ids as u32 & 0x7FFF_0000;
        // The kernel uses the upper 32 bits of a transaction ID itself.
        let id_upper = if info.simulated { ids >> 32 } else { 0 };
        // On a real port the IDs also depend on the time, because the kernel remembers the IDs of unanswered requests.
        let id_base = if info.simulated {
            id_base
        } else {
            id_base ^ ((rig.now().0 >> 10) as u32 & 0x7FFF_0000)
        };
        Self {
            rig,
            info,
            sink,
            journal,
            case,
            role: Role::Test,
            port: 0,
            reads_at: None,
            own: false,
            shown_own: PortInfo::default(),
            to: None,
            labels: Vec::new(),
            id_base,
            id_upper,
            states: Vec::new(),
            window: info.window.clamp(1, 64),
            outstanding: VecDeque::new(),
            resp_time: RespTime(verbatim_record::silence::DEFAULT),
            subnet_timeout: info
                .subnet_timeout
                .unwrap_or(SubnetTimeout(verbatim_record::silence::DEFAULT)),
            last_trap: None,
            trap_keys: Vec::new(),
            nearly: None,
            shown: BTreeMap::new(),
            keys: vec![info.key],
            areas: Vec::new(),
            stopped: None,
            peer: PeerState::default(),
        }
    }

    /// Returns the present time of the rig.
    #[must_use]
    pub fn now(&self) -> Time {
        self.rig.now()
    }

    /// Returns the stream of random numbers with this name, for this run.
    #[must_use]
    pub fn random(&self, name: &str) -> Stream {
        Stream::new(self.case.seed, self.case.test.id, name)
    }

    /// Returns the value of a parameter of this test.
    ///
    /// # Panics
    /// When the test declares no such parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> u64 {
        self.case
            .parameter(name, self.info.simulated)
            .unwrap_or_else(|| panic!("{} declares no parameter {name}", self.case.test.id))
    }

    /// Returns the M_Key of the DUT from the rig file.
    #[must_use]
    pub fn rig_key(&self) -> MKey {
        self.info.key
    }

    /// Whether MADs to the DUT use its LID. A change of the LID then makes the DUT unreachable.
    #[must_use]
    pub fn is_lid_routed(&self) -> bool {
        matches!(self.info.route, Route::Lid(_))
    }

    /// Whether the rig is simulated: time is simulated, and only the device and the tester exist.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.info.simulated
    }

    /// Whether the rig fulfils a need, for a test that can do without it.
    #[must_use]
    pub fn rig_offers(&self, need: crate::test::Need) -> bool {
        self.info.offers.contains(&need)
    }

    /// Returns the M_Key that is most likely in force. The tester's own port checks none.
    #[must_use]
    pub fn key(&self) -> MKey {
        if self.own { MKey(0) } else { self.keys[0] }
    }

    /// Returns the last PortInfo that the receiving port returned; all 0 before the first response.
    #[must_use]
    pub fn shown(&self) -> PortInfo {
        if self.own {
            return self.shown_own;
        }
        self.shown.get(&0).copied().unwrap_or_default()
    }

    /// Returns the silence period: how long a request must stay unanswered before the tester concludes that no response
    /// comes. The period depends on the times in PortInfo and on the delay of the tester's host.
    #[must_use]
    pub fn silence(&self) -> Duration {
        verbatim_record::silence::lasts(self.resp_time, self.subnet_timeout, self.info.host_bound)
    }

    /// Returns the longest time that a MAD may take to the device: the subnet timeout plus the delay of the tester's
    /// host. Returns 0 on a simulated rig.
    #[must_use]
    pub fn way(&self) -> Duration {
        if self.info.simulated {
            Duration::ZERO
        } else {
            self.subnet_timeout.duration() + self.info.host_bound
        }
    }

    /// Puts a note into the record.
    pub fn note(&mut self, text: impl Into<String>) {
        let at = Span::exactly(self.rig.now());
        self.sink.put(Entry::Note(Note { at, text: text.into() }));
    }

    /// Waits until a time and records all arrivals.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn wait_until(&mut self, until: Time) -> Step {
        self.check_stop()?;
        self.sink.flush();
        loop {
            match self.rig.wait(until) {
                Arrival::Deadline => return Ok(()),
                other => self.take(other)?,
            }
        }
    }

    /// Waits for a duration and records all arrivals.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn pause(&mut self, duration: Duration) -> Step {
        self.wait_until(self.rig.now().after(duration))
    }

    /// Gets an attribute of the receiving port, in up to three tries. Records each try.
    ///
    /// # Errors
    /// [`Stop::NoAnswer`] after three tries without a response, [`Stop::Refused`] when the response has an error
    /// status.
    pub fn get<A: Attribute>(&mut self, label: Label<A>, key: MKey) -> Step<A> {
        self.get_at(label, key, 0)
    }

    /// Gets an attribute at an AttributeModifier, in up to three tries. Records each try.
    ///
    /// # Errors
    /// As [`Tester::get`].
    pub fn get_at<A: Attribute>(&mut self, label: Label<A>, key: MKey, modifier: u32) -> Step<A> {
        match self.ask_at(label, key, modifier)? {
            Some(answer) if answer.status == Status::OK => Ok(answer.value),
            Some(answer) => Err(refused(label.name, answer.status)),
            None => Err(Stop::NoAnswer(label.name.into())),
        }
    }

    /// Gets an attribute at an AttributeModifier, in up to three tries. Returns any response, even with an error
    /// status.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_at<A: Attribute>(&mut self, label: Label<A>, key: MKey, modifier: u32) -> Step<Option<Answer<A>>> {
        let mad = self.mad::<A>(Method::GET, modifier).with_m_key(key);
        self.try_thrice(label, &mad)
    }

    /// Gets an attribute without retries after silence. Use this if the device would count a repetition, for example as
    /// an M_Key violation.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn get_once<A: Attribute>(&mut self, label: Label<A>, key: MKey) -> Step<Option<Answer<A>>> {
        let mad = self.mad::<A>(Method::GET, 0).with_m_key(key);
        self.exchange(label, 0, &mad)
    }

    /// Gets an attribute of the DUT's other port, in up to three tries. Sends the requests by port `port` of the rig.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_from<A: Attribute>(&mut self, port: PortId, label: Label<A>, key: MKey) -> Step<Option<Answer<A>>> {
        self.port = port;
        let answer = self.ask_at(label, key, 0);
        self.port = 0;
        answer
    }

    /// Gets an attribute from the port with LID `lid` by a LID-routed SMP, in up to three tries.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_lid<A: Attribute>(&mut self, lid: Lid, label: Label<A>, key: MKey) -> Step<Option<Answer<A>>> {
        self.to = Some(lid);
        let answer = self.ask_at(label, key, 0);
        self.to = None;
        answer
    }

    /// Gets an attribute in up to three tries. The data of the request is `asked`, for attributes whose Get needs
    /// fields such as PortSelect.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_with<A: Attribute>(&mut self, label: Label<A>, asked: &A) -> Step<Option<Answer<A>>> {
        let mad = self.mad::<A>(Method::GET, 0).with_data(asked.bytes());
        self.try_thrice(label, &mad)
    }

    pub(crate) fn try_thrice<A: Attribute>(&mut self, label: Label<A>, mad: &Mad) -> Step<Option<Answer<A>>> {
        for attempt in 0..TRIES {
            let answer = self.exchange(label, attempt, mad)?;
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }

    /// Gets an attribute without retries after silence, with the given base version and class version in the MAD
    /// header.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn get_as_version<A: Attribute>(
        &mut self,
        label: Label<A>,
        (base, class): (u8, u8),
        key: MKey,
    ) -> Step<Option<Answer<A>>> {
        let mad = self.mad::<A>(Method::GET, 0).with_m_key(key);
        let header = mad.header().with_base_version(base).with_class_version(class);
        self.exchange(label, 0, &mad.with_header(&header))
    }

    /// Gets an attribute with an SMP that has all reserved header bits set, in up to three tries. A receiver must
    /// ignore these bits. The SMP goes to `lid`, or takes the rig's route if `lid` is `None`.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_with_reserved_set<A: Attribute>(
        &mut self,
        lid: Option<Lid>,
        label: Label<A>,
        key: MKey,
    ) -> Step<Option<Answer<A>>> {
        self.to = lid;
        let mad = self.mad::<A>(Method::GET, 0).with_m_key(key).with_reserved_set();
        let answer = self.try_thrice(label, &mad);
        self.to = None;
        answer
    }

    /// Sends a TrapRepress and waits until the silence period has passed, because a TrapRepress has no response.
    /// Returns any response that arrives.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn repress(&mut self, label: Label<Notice>, key: MKey, notice: &Notice) -> Step<Option<Answer<Notice>>> {
        use verbatim_wire::Layout;
        let mad = self
            .mad::<Notice>(Method::TRAP_REPRESS, 0)
            .with_m_key(key)
            .with_data(notice.bytes());
        self.exchange(label, 0, &mad)
    }

    /// Sends a TrapRepress with the given base version and class version, and waits until the silence period has
    /// passed.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn repress_as_version(
        &mut self,
        label: Label<Notice>,
        (base, class): (u8, u8),
        key: MKey,
    ) -> Step<Option<Answer<Notice>>> {
        let mad = self.mad::<Notice>(Method::TRAP_REPRESS, 0).with_m_key(key);
        let header = mad.header().with_base_version(base).with_class_version(class);
        self.exchange(label, 0, &mad.with_header(&header))
    }

    /// Sends a MAD of an attribute with any method except Set, without retries after silence. For tests of methods and
    /// modifiers.
    ///
    /// A Set must go through [`Tester::set`], which requires that the journal has saved the attribute.
    ///
    /// # Errors
    /// When the run must stop.
    ///
    /// # Panics
    /// When the method is Set.
    pub fn send_once<A: Attribute>(
        &mut self,
        label: Label<A>,
        method: Method,
        modifier: u32,
        key: MKey,
    ) -> Step<Option<Answer<A>>> {
        assert!(method != Method::SET, "a Set goes out through a guard");
        let mad = self.mad::<A>(method, modifier).with_m_key(key);
        self.exchange(label, 0, &mad)
    }

    /// Sets an attribute of the performance class, in up to three tries. Counters advance by themselves and no journal
    /// restores them, so only tests with [`Need::Counters`](crate::Need::Counters) may call this.
    ///
    /// # Errors
    /// When the run must stop.
    ///
    /// # Panics
    /// When the attribute is of another class.
    pub fn set_counters<A: Attribute>(&mut self, label: Label<A>, value: &A) -> Step<Option<Answer<A>>> {
        assert!(A::PERFORMANCE, "a Set goes out through a guard");
        let mad = self.mad::<A>(Method::SET, 0).with_data(value.bytes());
        self.try_thrice(label, &mad)
    }

    /// Makes a MAD of an attribute for the rig's route.
    pub(crate) fn mad<A: Attribute>(&self, method: Method, modifier: u32) -> Mad {
        if A::PERFORMANCE {
            return Mad::performance(method, A::ID, modifier);
        }
        self.mad_of(method, A::ID, modifier)
    }

    /// Makes an SMP of an attribute for the rig's route.
    pub(crate) fn mad_of(&self, method: Method, attribute: AttributeId, modifier: u32) -> Mad {
        if self.own {
            return Mad::directed(method, attribute, modifier, &[]);
        }
        match &self.info.route {
            Route::Directed(path) if self.goes_to().is_none() => Mad::directed(method, attribute, modifier, path),
            _ => Mad::lid_routed(method, attribute, modifier),
        }
    }

    /// Returns an error if the run was stopped or the record cannot be written. Always succeeds for the runner, so that
    /// a restore continues after a stop.
    pub(crate) fn check_stop(&mut self) -> Step {
        if self.role == Role::Runner {
            return Ok(());
        }
        if self.stopped.is_none() {
            self.stopped = self.sink.error().map(Stop::Tester);
        }
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// Returns the rig's port that sends the next request. The restore always uses port 0.
    pub(crate) fn leaves_by(&self) -> PortId {
        if self.own {
            return OWN_PORT;
        }
        match self.reads_at {
            Some(port) => port,
            None if self.role == Role::Runner => 0,
            None => self.port,
        }
    }

    /// Returns the destination LID of the next request, or `None` for the rig's route. The runner's requests always
    /// take the rig's route.
    pub(crate) fn goes_to(&self) -> Option<Lid> {
        self.to.filter(|_| self.role == Role::Test && !self.own)
    }

    pub(crate) fn stimulus(&mut self, mad: &Mad) -> Step<Span> {
        self.check_stop()?;
        let port = self.leaves_by();
        self.rig.send(match self.goes_to() {
            Some(lid) => Stimulus::MadTo(port, lid, mad),
            None => Stimulus::Mad(port, mad),
        })
    }
}

pub(crate) fn refused(label: &str, status: Status) -> Stop {
    Stop::Refused(if status == Status::BUSY {
        format!("\"{label}\": the device was busy at each of {BUSY_TRIES} requests; run again when it is not busy")
    } else {
        format!("\"{label}\" was refused with status {status}")
    })
}
