//! The peer of a device under test: frames that the tester makes itself, and verbs on both hosts.
//!
//! The peer does not judge: it records each arrival and passes it to the procedure, and the judge reads the record. The
//! peer also replies to ARP and neighbour discovery for the tester's own address, which no kernel owns.

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

pub use channel::{Channel, DEPTH, Memory, Pair, PairEnd};
pub use frames::Received;
pub use native::Native;
pub use options::{ChannelOptions, Marks, RightsBy};
pub use verbatim_record::labels;
pub use verbs::Sign;

use crate::rig::Arrival;
use crate::stop::Step;
use crate::test::ACK_TIMEOUT_LEAST;
use crate::tester::Tester;

/// State of the peer between two calls of a procedure.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    frames: u32,
    commands: u32,
    /// Received RoCE packets for the procedure, in order of arrival.
    inbox: VecDeque<Received>,
    /// Received native packets for the procedure, in order of arrival.
    natives: VecDeque<Native>,
    /// Replies of the hosts to outstanding commands, by command number.
    answers: BTreeMap<u32, Reply>,
    /// Events that the hosts reported, in order of arrival, each with its side and time.
    told: VecDeque<(Side, Span, Event)>,
    /// MAC and IP address of the DUT.
    dut: Option<(MacAddress, IpAddr)>,
    /// Replies to a request for the DUT's MAC address: time of arrival and MAC address.
    neighbour: VecDeque<(Span, MacAddress)>,
    offered: offered::Offered,
    /// Queue pairs that the test created.
    room: room::Room,
    /// Hosts that received a command and may therefore have objects of the test.
    touched: Vec<Side>,
    /// The longest measured round trip.
    path: Duration,
    /// Time when the last frame was sent or received.
    last_frame: Time,
    landing: landing::Landing,
    /// Longest response time of the DUT, derived from its Local CA ACK Delay.
    answer_time: Duration,
}

/// Upper limit of the DUT's response time, even if the DUT reports a longer time.
const LONGEST_ANSWER: Duration = Duration::from_secs(20);

impl Tester<'_> {
    /// Returns how long a reliable connection must stay silent before the tester concludes that no further packet
    /// comes. The period is the longest of: two seconds, twice the RNR interval, four times the ACK timeout for each
    /// try, and the DUT's response time. The delays of the path and of the tester's host are added.
    #[must_use]
    pub fn rc_silence(&self, rnr_interval: Duration, timeout: AckTimeout, retry_cnt: u8) -> Duration {
        let lasts = verbatim_record::silence::rc_lasts(rnr_interval, self.at_least(timeout), retry_cnt);
        lasts.max(self.answer_time()) + self.peer.path + self.info.host_bound
    }

    /// Returns the DUT's longest response time, derived from its Local CA ACK Delay; at most 20 s. Returns 0 if the DUT
    /// reports no delay, or before the DUT's device is opened.
    #[must_use]
    pub fn answer_time(&self) -> Duration {
        self.peer.answer_time.min(LONGEST_ANSWER)
    }

    /// Returns the time when the last frame was sent or received.
    #[must_use]
    pub fn last_frame(&self) -> Time {
        self.peer.last_frame
    }

    /// Returns the ACK timeout, raised to the parameter [`ACK_TIMEOUT_LEAST`]. A disabled timeout stays disabled.
    fn at_least(&self, timeout: AckTimeout) -> AckTimeout {
        let least = self.case.parameter(ACK_TIMEOUT_LEAST, self.info.simulated);
        let least = least.and_then(|least| u8::try_from(least).ok()).unwrap_or(0);
        match timeout {
            AckTimeout::OFF => AckTimeout::OFF,
            AckTimeout(code) => AckTimeout(code.max(least)),
        }
    }

    /// Returns the longest measured round trip of the path; 0 before the first measurement.
    #[must_use]
    pub fn longest_round_trip(&self) -> Duration {
        self.peer.path
    }

    /// Waits for a duration and records the wait, with its times, under a label.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn wait_for(&mut self, label: Label<Wait>, duration: Duration) -> Step {
        let since = self.rig.now();
        self.wait_until(since.after(duration))?;
        self.waited(label, since);
        Ok(())
    }

    /// Calls `take` after each arrival until `take` returns an item. Returns `None` if `take` returns no item by
    /// `until`.
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

    /// Records a wait under a label, from `since` until now.
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
