//! The tester: what a procedure calls.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use verbatim_record::{Entry, Label, Note, Role, Sink, Span, Time};
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

/// Tries of an exchange that must be answered: "no answer" is proved by asking again.
pub(crate) const TRIES: u32 = verbatim_record::TRIES;

/// An answer: its status, and the attribute that it carries.
#[derive(Clone, Copy, Debug)]
pub struct Answer<A> {
    /// Its status.
    pub status: Status,
    /// The attribute.
    pub value: A,
    /// When it came.
    pub at: Span,
}

/// What a procedure works with; exists once for each run of a test.
pub struct Tester<'r> {
    pub(crate) rig: &'r mut dyn Rig,
    pub(crate) info: &'r RigInfo,
    pub(crate) sink: &'r mut dyn Sink,
    pub(crate) journal: &'r mut dyn Journal,
    pub(crate) case: &'r Case<'r>,
    pub(crate) role: Role,
    /// The port that requests of the procedure leave by.
    pub(crate) port: PortId,
    /// The port that the runner's own reads leave by, where that is another than the first.
    pub(crate) reads_at: Option<PortId>,
    /// The LID that SMPs of the procedure go to, where that is another than the rig's way.
    pub(crate) to: Option<Lid>,
    pub(crate) labels: Vec<(&'static str, Role)>,
    pub(crate) id_base: u32,
    /// The upper half of all transaction ids.
    pub(crate) id_upper: u64,
    pub(crate) states: Vec<State>,
    /// MADs outstanding at once: as the rig has it, or fewer, where the port has no room for as many.
    pub(crate) window: usize,
    pub(crate) outstanding: VecDeque<Outstanding>,
    pub(crate) resp_time: RespTime,
    pub(crate) subnet_timeout: SubnetTimeout,
    /// The trap that came in last.
    pub(crate) last_trap: Option<Mad>,
    pub(crate) trap_keys: Vec<MKey>,
    /// The field in which the last response that was no answer differed from one, if it was one field.
    pub(crate) nearly: Option<&'static str>,
    /// PortInfo as it was shown last, by AttributeModifier.
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
        // Transaction ids differ between runs, so that a straggler of an earlier one matches nothing.
        let ids = Stream::new(case.seed, case.test.id, "transaction ids").bits();
        let id_base = ids as u32 & 0x7FFF_0000;
        // A kernel has the upper half for itself.
        let id_upper = if info.simulated { ids >> 32 } else { 0 };
        // On a port that stays open they also differ from test to test: a kernel remembers those of silent requests.
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

    /// Now, in the rig's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.rig.now()
    }

    /// A stream of random numbers of this run.
    #[must_use]
    pub fn random(&self, name: &str) -> Stream {
        Stream::new(self.case.seed, self.case.test.id, name)
    }

    /// The value of a parameter of this test.
    ///
    /// # Panics
    /// When the test declares no such parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> u64 {
        self.case
            .parameter(name, self.info.simulated)
            .unwrap_or_else(|| panic!("{} declares no parameter {name}", self.case.test.id))
    }

    /// The M_Key that the rig file gives for the DUT.
    #[must_use]
    pub fn rig_key(&self) -> MKey {
        self.info.key
    }

    /// Whether MADs reach the DUT by its LID, so that a change of it cuts the DUT off.
    #[must_use]
    pub fn is_lid_routed(&self) -> bool {
        matches!(self.info.route, Route::Lid(_))
    }

    /// Whether time is simulated, and nothing but the device and the tester is there.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.info.simulated
    }

    /// Whether the rig offers this, where a test can do without.
    #[must_use]
    pub fn rig_offers(&self, need: crate::test::Need) -> bool {
        self.info.offers.contains(&need)
    }

    /// The M_Key that is in force, as far as is known.
    #[must_use]
    pub fn key(&self) -> MKey {
        self.keys[0]
    }

    /// PortInfo of the receiving port, as it was shown last; all 0 before that.
    #[must_use]
    pub fn shown(&self) -> PortInfo {
        self.shown.get(&0).copied().unwrap_or_default()
    }

    /// How long silence must last, by the rule of silence and what the port told of itself.
    #[must_use]
    pub fn silence(&self) -> Duration {
        verbatim_record::silence::lasts(self.resp_time, self.subnet_timeout, self.info.host_bound)
    }

    /// How much later than it was sent a MAD may reach the device: one way, and what our own host holds up; nothing on
    /// a simulated rig, where both are exact.
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

    /// Lets time pass; what arrives meanwhile is recorded.
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

    /// Lets that much time pass.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn pause(&mut self, duration: Duration) -> Step {
        self.wait_until(self.rig.now().after(duration))
    }

    /// Gets an attribute of the receiving port: up to three tries, each recorded.
    ///
    /// # Errors
    /// [`Stop::NoAnswer`] after three silences, [`Stop::Refused`] when the answer has an error status.
    pub fn get<A: Attribute>(&mut self, label: Label<A>, key: MKey) -> Step<A> {
        self.get_at(label, key, 0)
    }

    /// Gets an attribute with a modifier: up to three tries, each recorded.
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

    /// Gets an attribute whose refusal is as good an answer as its value: up to three tries.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_at<A: Attribute>(&mut self, label: Label<A>, key: MKey, modifier: u32) -> Step<Option<Answer<A>>> {
        let mad = self.mad::<A>(Method::GET, modifier).with_m_key(key);
        self.try_thrice(label, &mad)
    }

    /// Gets an attribute once: where a repetition would count twice.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn get_once<A: Attribute>(&mut self, label: Label<A>, key: MKey) -> Step<Option<Answer<A>>> {
        let mad = self.mad::<A>(Method::GET, 0).with_m_key(key);
        self.exchange(label, 0, &mad)
    }

    /// Gets an attribute of the DUT's other port: the request leaves by another port of the rig. Up to three tries.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_from<A: Attribute>(&mut self, port: PortId, label: Label<A>, key: MKey) -> Step<Option<Answer<A>>> {
        self.port = port;
        let answer = self.ask_at(label, key, 0);
        self.port = 0;
        answer
    }

    /// Gets an attribute from whoever has that LID, by a LID-routed SMP: up to three tries.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_lid<A: Attribute>(&mut self, lid: Lid, label: Label<A>, key: MKey) -> Step<Option<Answer<A>>> {
        self.to = Some(lid);
        let answer = self.ask_at(label, key, 0);
        self.to = None;
        answer
    }

    /// Gets an attribute whose request says something itself, such as PortSelect: up to three tries.
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

    /// Gets an attribute once, in a MAD of another base version or class version than 1.
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

    /// Gets an attribute by an SMP that has all reserved bits of its headers set, which a receiver does not look at: from
    /// whoever has that LID, or by the rig's way. Up to three tries.
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

    /// Sends a TrapRepress, which nothing answers, and waits until silence is proven.
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

    /// Sends a TrapRepress of another base version or class version than 1, and waits until silence is proven.
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

    /// Sends a MAD of an attribute once, with any method, for tests of methods and modifiers.
    ///
    /// A Set must go through [`Tester::set`], which guards what it changes.
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

    /// Sets an attribute of the performance class: up to three tries. Counters go on by themselves and no journal gives them
    /// back, so this is for tests that need [`Need::Counters`](crate::Need::Counters).
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

    /// A MAD of an attribute on the rig's route.
    pub(crate) fn mad<A: Attribute>(&self, method: Method, modifier: u32) -> Mad {
        if A::PERFORMANCE {
            return Mad::performance(method, A::ID, modifier);
        }
        self.mad_of(method, A::ID, modifier)
    }

    /// An SMP of an attribute on the rig's route.
    pub(crate) fn mad_of(&self, method: Method, attribute: AttributeId, modifier: u32) -> Mad {
        match &self.info.route {
            Route::Directed(path) if self.goes_to().is_none() => Mad::directed(method, attribute, modifier, path),
            _ => Mad::lid_routed(method, attribute, modifier),
        }
    }

    /// Ends at once when the run was stopped before, or the record cannot be written.
    pub(crate) fn check_stop(&mut self) -> Step {
        if self.role == Role::Runner {
            return Ok(());
        }
        if self.stopped.is_none() {
            self.stopped = self.sink.error().map(Stop::Tester);
        }
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// The port that a request leaves by; what restores always goes out by the first, whatever the procedure was at.
    pub(crate) fn leaves_by(&self) -> PortId {
        match self.reads_at {
            Some(port) => port,
            None if self.role == Role::Runner => 0,
            None => self.port,
        }
    }

    /// The LID that a request goes to, where that is another than the rig's way; never of what restores.
    pub(crate) fn goes_to(&self) -> Option<Lid> {
        self.to.filter(|_| self.role == Role::Test)
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

/// What ends a procedure whose request was refused.
pub(crate) fn refused(label: &str, status: Status) -> Stop {
    Stop::Refused(if status == Status::BUSY {
        format!("\"{label}\": the device was busy each of {BUSY_TRIES} times it was asked; run again when it is not")
    } else {
        format!("\"{label}\" was refused with status {status}")
    })
}
