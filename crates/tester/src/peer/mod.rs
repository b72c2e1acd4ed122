//! The peer of a device under test: frames of our own making, and verbs on both hosts.
//!
//! It keeps no opinion: what comes in is recorded and handed to the procedure, the judge reads the record. It answers
//! ARP and neighbour discovery for the tester's own address by itself, since no kernel does.

mod channel;
mod frames;
mod landing;
mod native;
mod neighbours;
mod offered;
mod options;
mod room;
mod verbs;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use verbatim_record::verbs::{Event, Reply};
use verbatim_record::{Label, Side, Span, Time, Wait};
use verbatim_wire::ether::MacAddress;
use verbatim_wire::packet::AckTimeout;

pub use channel::{Channel, DEPTH, Memory, Pair};
pub use frames::Received;
pub use native::Native;
pub use options::{ChannelOptions, Marks, RightsBy};
pub use verbatim_record::labels;
pub use verbs::Sign;

use crate::rig::Arrival;
use crate::stop::Step;
use crate::test::ACK_TIMEOUT_LEAST;
use crate::tester::Tester;

/// What the peer keeps between two calls of a procedure.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    frames: u32,
    commands: u32,
    /// Frames for the procedure, in order.
    inbox: VecDeque<Received>,
    /// Native packets for the procedure, in order.
    natives: VecDeque<Native>,
    /// Answers to commands that are waited for.
    answers: BTreeMap<u32, Reply>,
    /// Events for the procedure, in order.
    told: VecDeque<(Side, Span, Event)>,
    /// Where the DUT is.
    dut: Option<(MacAddress, IpAddr)>,
    /// Answers of the neighbour that is asked.
    neighbour: VecDeque<(Span, MacAddress)>,
    /// What the hosts said of what their devices have.
    offered: offered::Offered,
    /// The queue pairs that were made.
    room: room::Room,
    /// Hosts on which something was made.
    touched: Vec<Side>,
    /// The largest round trip that was measured.
    path: Duration,
    /// When the last frame left or came in.
    last_frame: Time,
    /// WRITEs and atomics since the last look at memory.
    landing: landing::Landing,
    /// How long the DUT may take to answer, by its Local CA ACK Delay.
    answer_time: Duration,
}

/// A device that may take longer to answer is not waited for.
const LONGEST_ANSWER: Duration = Duration::from_secs(20);

impl Tester<'_> {
    /// How long a reliable connection must stay silent to prove it: two seconds, twice the RNR interval, four times the
    /// ACK timeout for each try, how long the DUT may take to answer, whichever is the longest, and the path.
    #[must_use]
    pub fn rc_silence(&self, rnr_interval: Duration, timeout: AckTimeout, retry_cnt: u8) -> Duration {
        let lasts = verbatim_record::silence::rc_lasts(rnr_interval, self.at_least(timeout), retry_cnt);
        lasts.max(self.answer_time()) + self.peer.path + self.info.host_bound
    }

    /// How long the DUT may take to answer, by its Local CA ACK Delay, but 20 s at most; 0 where it tells none.
    #[must_use]
    pub fn answer_time(&self) -> Duration {
        self.peer.answer_time.min(LONGEST_ANSWER)
    }

    /// When the last frame left or came in.
    #[must_use]
    pub fn last_frame(&self) -> Time {
        self.peer.last_frame
    }

    /// This ACK timeout, or the least that the DUT keeps to if that is longer. Off stays off.
    fn at_least(&self, timeout: AckTimeout) -> AckTimeout {
        let least = self.case.parameter(ACK_TIMEOUT_LEAST, self.info.simulated);
        let least = least.and_then(|least| u8::try_from(least).ok()).unwrap_or(0);
        match timeout {
            AckTimeout::OFF => AckTimeout::OFF,
            AckTimeout(code) => AckTimeout(code.max(least)),
        }
    }

    /// The longest round trip of the path that was measured so far; 0 before it was.
    #[must_use]
    pub fn longest_round_trip(&self) -> Duration {
        self.peer.path
    }

    /// Lets that much time pass under a label: the record says that, and when, it was waited.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn wait_for(&mut self, label: Label<Wait>, duration: Duration) -> Step {
        let since = self.rig.now();
        self.wait_until(since.after(duration))?;
        self.waited(label, since);
        Ok(())
    }

    /// What `take` takes of what came in; waits for it until then.
    fn await_until<T>(&mut self, until: Time, take: impl Fn(&mut PeerState) -> Option<T>) -> Step<Option<T>> {
        loop {
            if let Some(taken) = take(&mut self.peer) {
                return Ok(Some(taken));
            }
            self.sink.flush();
            match self.rig.wait(until) {
                Arrival::Deadline => return Ok(None),
                other => self.take(other)?,
            }
        }
    }

    /// Puts into the record that it was waited under a label, from an instant up to now.
    pub(crate) fn waited(&mut self, label: Label<Wait>, since: Time) {
        let number = self.number_of(label.name);
        let until = self.rig.now();
        self.sink.put(verbatim_record::Entry::Waited(verbatim_record::Waited {
            label: number,
            since,
            until,
        }));
    }
}
