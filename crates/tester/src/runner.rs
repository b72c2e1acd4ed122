//! Runs one test: sanity check, procedure and restore. The restore runs even after a stop or a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use verbatim_record::{Begin, Entry, Label, Restored, Role, Side, Sink, StopReason, Stopped};
use verbatim_wire::{Lid, MKey, NodeInfo, PortInfo, PortState, Status};

use crate::exchange::State;
use crate::guard::AreaState;
use crate::journal::{Journal, Left, Pending};
use crate::rig::{Rig, RigInfo};
use crate::stop::{Step, Stop};
use crate::test::{Need, OF_DEVICE, Test};
use crate::tester::Tester;

const SANITY: Label<PortInfo> = Label::new("sanity check");
const IDENTITY: Label<NodeInfo> = Label::new("which device this is");
const UNASSIGNED: Label<PortInfo> = Label::new("the port before it is given a LID");
const ASSIGN: Label<PortInfo> = Label::new("giving the port a LID");
const ALIVE: Label<PortInfo> = Label::new("is the device still there");

/// Part of the text of a stop if the M_Key in the rig file is wrong. Judges search for these words.
pub const ANOTHER_KEY: &str = "the device has another M_Key";

/// One execution of one test.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The test.
    pub test: &'a Test,
    /// The run's seed.
    pub seed: u64,
    /// Parameters given by the operator.
    pub parameters: Vec<(String, u64)>,
    /// Version of the catalogue.
    pub catalogue: String,
}

impl Case<'_> {
    /// Returns the value of a parameter: the operator's value, or else the default for a simulated or real rig. Returns
    /// `None` if the test has no such parameter.
    #[must_use]
    pub fn parameter(&self, name: &str, simulated: bool) -> Option<u64> {
        let declared = self.test.all_parameters().find(|parameter| parameter.name == name)?;
        let given = self.parameters.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        Some(given.unwrap_or(if simulated {
            declared.simulated
        } else {
            declared.default
        }))
    }

    /// Returns the first entry of the record.
    #[must_use]
    pub fn begin(&self, info: &RigInfo) -> Begin {
        let mut parameters: Vec<_> = self
            .test
            .all_parameters()
            .filter_map(|p| Some((p.name.to_string(), self.parameter(p.name, info.simulated)?)))
            // Leaves out a device parameter with value 0: the operator gave no information about it.
            .filter(|(name, value)| *value > 0 || !OF_DEVICE.iter().any(|of| of.name == name))
            .collect();
        parameters.sort();
        Begin {
            test: self.test.id.into(),
            revision: self.test.revision,
            seed: self.seed,
            parameters,
            rig_kind: info.kind.clone(),
            rig_key: info.key,
            host_bound: info.host_bound,
            simulated: info.simulated,
            shared_subnet: info.shared_subnet,
            catalogue: self.catalogue.clone(),
            subnet_timeout: info.subnet_timeout,
            time_scale: if info.time_scale.0 > 1 { info.time_scale.0 } else { 0 },
            time_scale_least: info.time_scale.1.unwrap_or(0),
        }
    }

    /// Returns a sentence that names the needs of the test that the rig does not fulfil, or `None` if it fulfils all.
    #[must_use]
    pub fn missing(&self, info: &RigInfo) -> Option<String> {
        self.test.missing(&info.offers)
    }
}

/// The result of a run of one test, in addition to its record.
#[derive(Clone, PartialEq, Debug)]
pub struct Ran {
    /// Results of the restore, one for each area.
    pub restored: Vec<Restored>,
    /// The reason why the procedure ended early; `None` if it ended normally.
    pub stopped: Option<Stopped>,
}

/// Runs a test and restores the device, even after a stop or a panic.
///
/// The results go into `sink`, which the caller closes.
pub fn run(rig: &mut dyn Rig, info: &RigInfo, sink: &mut dyn Sink, journal: &mut dyn Journal, case: &Case<'_>) -> Ran {
    sink.put(Entry::Begin(Box::new(case.begin(info))));
    if let Some(missing) = case.missing(info) {
        let stopped = Stopped {
            reason: StopReason::NotOffered,
            text: missing,
        };
        sink.put(Entry::Stopped(stopped.clone()));
        sink.flush();
        return Ran {
            restored: Vec::new(),
            stopped: Some(stopped),
        };
    }
    let mut tester = Tester::new(rig, info, sink, journal, case);
    let mut stopped = tester.sanity_by_need(case.test);
    if stopped.is_none() && case.test.needs.contains(&Need::Mad) {
        stopped = tester.assign_lid();
    }
    if stopped.is_none() && case.test.is_of_management() {
        // The result is ignored: if the device no longer answers, the procedure detects this.
        let _ = tester.shadow("before the test");
    }
    if stopped.is_none() {
        tester.role = Role::Test;
        let outcome = catch_unwind(AssertUnwindSafe(|| (case.test.procedure)(&mut tester)));
        stopped = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(stop)) => Some(stop.to_entry()),
            Err(panic) => Some(Stopped {
                reason: StopReason::Panicked,
                text: message_of(panic.as_ref()),
            }),
        };
        tester.role = Role::Runner;
        let about_the_device = |stopped: &Stopped| matches!(stopped.reason, StopReason::NoAnswer | StopReason::Refused);
        if let Err(stop) = tester.rig.procedure_ended()
            && stopped.as_ref().is_none_or(about_the_device)
        {
            stopped = Some(stop.to_entry());
        }
        // A disconnected cable is not the device's fault. Verbs replies do not reveal it, because the host sends them
        // over another network.
        if stopped.is_none() && case.test.needs.contains(&Need::Packets) {
            stopped = match tester.port_is_there() {
                Ok(true) => None,
                Ok(false) => Some(Stopped {
                    reason: StopReason::RigGone,
                    text: "the DUT's port answered none of 3 requests for its MAC address, but its host still \
                           answers: is the link up?"
                        .into(),
                }),
                Err(stop) => Some(stop.to_entry()),
            };
        }
    }
    if let Some(stopped) = &stopped {
        tester.sink.put(Entry::Stopped(stopped.clone()));
    }
    // After a failed sanity check, the last silence needs no further request: the sanity check already repeated
    // its request.
    let not_sane = matches!(
        &stopped,
        Some(Stopped {
            reason: StopReason::NotSane,
            ..
        })
    );
    let last_was_silent = !not_sane && tester.states.last() == Some(&State::Silent);
    if stopped.is_none() && case.test.is_of_management() {
        let _ = tester.shadow("after the test");
    }
    let restored = tester.restore_all();
    tester.release_verbs();
    if last_was_silent {
        // The judge counts the last silence as a fault of the device only if the device answers this request.
        let _ = tester.still_there();
    }
    tester.sink.flush();
    Ran { restored, stopped }
}

/// Restores the changes that an earlier run left. Call this before any other use of the rig. Returns one result for
/// each area.
pub fn recover(
    rig: &mut dyn Rig,
    info: &RigInfo,
    sink: &mut dyn Sink,
    left: Left,
    journal: &mut dyn Journal,
) -> Vec<Restored> {
    let case = Case {
        test: &RECOVERY,
        seed: 0,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    sink.put(Entry::Begin(Box::new(case.begin(info))));
    let Left {
        areas: pending,
        keys,
        device,
        path,
    } = left;
    let mut tester = Tester::new(rig, info, sink, journal, &case);
    tester.role = Role::Runner;
    // Tries the journal's keys first, the likeliest first, and then the key of the rig file.
    tester.keys.retain(|known| !keys.contains(known));
    tester.keys.splice(0..0, keys);
    if let Some(failure) = tester.is_another(&device, &path) {
        let refused = |p: Pending| Restored {
            area: p.area.name,
            failure: failure.clone(),
            ..Restored::default()
        };
        return pending.into_iter().map(refused).collect();
    }
    tester.areas = pending
        .into_iter()
        .map(|p| AreaState {
            area: p.area,
            parts: p.parts,
        })
        .collect();
    tester.restore_all()
}

/// A pseudo test for the record of [`recover`].
const RECOVERY: Test = Test::of("restore", |_| Ok(()));

impl Tester<'_> {
    /// Checks that the device still answers Get(PortInfo) with the M_Key in force, in up to three tries.
    ///
    /// # Errors
    /// [`Stop::NoAnswer`] when the device does not answer, and when the run must stop.
    pub(crate) fn still_there(&mut self) -> Step {
        let (role, key) = (self.role, self.key());
        self.role = Role::Runner;
        let answer = self.get(ALIVE, key);
        self.role = role;
        answer.map(|_| ())
    }

    /// Compares the PortGUID in the journal with that of the device. If they differ, returns the reason why the journal
    /// must not be applied.
    fn is_another(&mut self, device: &str, path: &Path) -> Option<String> {
        if device.is_empty() {
            return None;
        }
        self.find_key().ok()?;
        let node = self.get(IDENTITY, self.key()).ok()?;
        let here = node.port_guid().to_string();
        (here != device).then(|| {
            format!(
                "the journal belongs to the device with PortGUID {device}, but the connected device has {here}: \
                 connect the right device and run again; if it no longer exists, remove {}",
                path.display()
            )
        })
    }

    /// Runs the sanity check that fits the needs of a test.
    fn sanity_by_need(&mut self, test: &Test) -> Option<Stopped> {
        let needs = |need| test.needs.contains(&need);
        if needs(Need::Packets) || needs(Need::Verbs) {
            self.role = Role::Runner;
            if needs(Need::Verbs) && self.info.offers.contains(&Need::NativePair) {
                let stopped = self.sanity().or_else(|| self.raise_pair());
                if stopped.is_some() {
                    return stopped;
                }
            }
            let checked = self.peer_is_sane(needs(Need::Packets), needs(Need::Verbs));
            return match checked {
                Ok(()) => self.stopped.as_ref().map(Stop::to_entry),
                Err(stop) if !stop.is_about_the_device() => Some(stop.to_entry()),
                Err(stop) => Some(Stopped {
                    reason: StopReason::NotSane,
                    text: stop.to_entry().text,
                }),
            };
        }
        self.sanity()
    }

    /// Checks that the devices open and that their ports are active. With `packets`, also checks that the DUT replies
    /// to a request for its MAC address.
    fn peer_is_sane(&mut self, packets: bool, verbs: bool) -> Step {
        const PORT_ACTIVE: u32 = 4;
        const BEFORE_ACTIVE: [u32; 2] = [2, 3];
        let sides: &[Side] = if verbs {
            &[Side::Dut, Side::Tester]
        } else {
            &[Side::Dut]
        };
        for side in sides {
            let facts = self.open_device(*side)?;
            if !facts.ethernet && (BEFORE_ACTIVE.contains(&facts.port_state) || facts.lid == 0) {
                return Err(Stop::NotOffered(format!(
                    "the InfiniBand port {} of the {side}'s device {} is not ready: its state is {} (4 is Active), its \
                     LID is {}; let a subnet manager bring up the link (`opensm --guid GUID --once`), or write \
                     assign_lid = 5 into a rig of kind umad with verbs = true",
                    facts.port, facts.device, facts.port_state, facts.lid
                )));
            }
            if facts.port_state != PORT_ACTIVE {
                return Err(Stop::Refused(format!(
                    "port {} of the {side}'s device {} is not active (its state is {}, 4 is active): is the link up?",
                    facts.port, facts.device, facts.port_state
                )));
            }
            if *side == Side::Dut && packets {
                let ip = self.dut_address(&facts)?;
                if self.find_dut(ip)?.is_none() {
                    return Err(Stop::Refused(format!(
                        "the DUT answered none of 3 requests for the MAC address of {ip}, sent from {}: are both on \
                         one link, and is dut_ip an address of the DUT's interface?",
                        self.frame_port()?.ip
                    )));
                }
            }
        }
        Ok(())
    }

    /// Checks that the device answers Get(PortInfo), and that its values permit a test.
    fn sanity(&mut self) -> Option<Stopped> {
        self.role = Role::Runner;
        let not_sane = |text: String| {
            Some(Stopped {
                reason: StopReason::NotSane,
                text,
            })
        };
        let info = match self.get(SANITY, self.rig_key()) {
            Ok(info) => info,
            Err(stop) if !stop.is_about_the_device() => return Some(stop.to_entry()),
            Err(Stop::Refused(text)) => return not_sane(format!("the device refuses Get(PortInfo): {text}")),
            Err(_) => {
                let key = self.rig_key();
                return not_sane(if let Some(field) = self.nearly {
                    format!(
                        "the device answers Get(PortInfo), sent 3 times, but with another {field} than the request's"
                    )
                } else if self.trap_keys.contains(&key) {
                    format!("{ANOTHER_KEY} than {key}, as its trap says: put the right one as m_key into the rig file")
                } else {
                    format!(
                        "the device does not answer Get(PortInfo) with M_Key {key}, sent 3 times: is it cabled, \
                         powered and on this route? If it is, {ANOTHER_KEY}: put the right one as m_key into the rig \
                         file"
                    )
                });
            }
        };
        if self.stopped.is_some() {
            return self.stopped.as_ref().map(Stop::to_entry);
        }
        if self.subnet_timeout.0 > 20 {
            return not_sane(format!(
                "SubnetTimeOut is {}: silence cannot be proven in reasonable time; let a subnet manager set it, or, where \
                 none manages this subnet, write subnet_timeout = 18 into the rig file",
                self.subnet_timeout
            ));
        }
        if !matches!(
            info.port_state(),
            PortState::INITIALIZE | PortState::ARMED | PortState::ACTIVE
        ) {
            return not_sane(format!(
                "the device answers, and its port state is {}; expected Initialize, Armed or Active: are the cable and \
                 the port at its other end up, and does the route lead to the intended port?",
                info.port_state()
            ));
        }
        if info.m_key() == MKey(0) && info.protect_bits().0 == 1 {
            return not_sane(format!(
                "{ANOTHER_KEY} than {}, and hides it (it shows 0 at protect level 1): put the right one as m_key into \
                 the rig \
                 file; if it has none, clear its protect bits",
                self.rig_key()
            ));
        }
        if info.m_key() != self.rig_key() && info.m_key() != MKey(0) {
            return not_sane(format!(
                "{ANOTHER_KEY} than {}: it is {key}; put m_key = \"{key}\" into the rig file",
                self.rig_key(),
                key = info.m_key()
            ));
        }
        // Without a response the journal contains no PortGUID, and a later restore cannot detect another device.
        if let Ok(Some(node)) = self.get_once(IDENTITY, self.rig_key())
            && node.status == Status::OK
        {
            return self
                .journal
                .identify(&node.value.port_guid().to_string())
                .err()
                .map(|stop| stop.to_entry());
        }
        None
    }

    /// If the rig file has `assign_lid`, assigns the missing LIDs to a device that has no LID or no SM's LID. The
    /// journal saves the old values, and the restore writes them back as far as the device accepts them. A refusal
    /// is noted in the record.
    fn assign_lid(&mut self) -> Option<Stopped> {
        let given = self.info.assign_lid?;
        let found = *self.shown.get(&0)?;
        if found.lid().is_unicast() && found.master_sm_lid().is_unicast() {
            return None;
        }
        let key = self.key();
        let assigned = self.guard(UNASSIGNED, key).and_then(|port| {
            let image = port.quiet().change(|info| {
                let lid = if info.lid().is_unicast() { info.lid() } else { given };
                let sm_lid = Lid(if lid == Lid(1) { 2 } else { 1 });
                let info = info.with_lid(lid);
                if info.master_sm_lid().is_unicast() {
                    info
                } else {
                    info.with_master_sm_lid(sm_lid)
                }
            });
            self.set(ASSIGN, &port, image)
        });
        match assigned {
            Ok(Some(answer)) if answer.status != Status::OK => {
                self.note(format!(
                    "the device refuses the LID of assign_lid: status {}",
                    answer.status
                ));
                None
            }
            Ok(_) => None,
            Err(stop) if stop.is_about_the_device() => {
                self.note(format!(
                    "the tester assigned no LID to the device: {}",
                    stop.to_entry().text
                ));
                None
            }
            Err(stop) => Some(stop.to_entry()),
        }
    }

    /// Returns a lease period in seconds that is much longer than this test: twelve silence periods, at least a minute.
    #[must_use]
    pub fn longer_than_this_test(&self) -> u16 {
        let seconds = (self.silence().as_secs() + 1).saturating_mul(12).max(60);
        u16::try_from(seconds).unwrap_or(u16::MAX)
    }
}

fn message_of(panic: &(dyn core::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
