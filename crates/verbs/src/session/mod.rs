//! A session: the objects of one client on a device, and the execution of its commands.
//!
//! A session is synchronous and owned by one thread. Dropping it destroys all its objects: first queue pairs with their
//! completion queues, then memory, then protection domain and device.
//!
//! # Times
//!
//! All times are on [`crate::clock`]. The time of a reply spans the call of the driver. The time of a completion begins
//! when its completion queue was last seen empty, and ends when the completion was polled.
//!
//! The session polls the completion queues before each command, so no completion has a time before the post of its
//! request. After a signaled send request, [`drive`](crate::drive::drive) polls without a pause for about a
//! millisecond. Then the session is polled every 100 µs while requests are outstanding. Late completions therefore
//! have a short span too.

mod commands;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use verbatim_proto::agent::{AsyncEvent, Completion, Event, Instant, Refused, Reply, event, reply};
use verbatim_wire::verbs::Service;

pub use limits::Limits;

use crate::clock::{now_ns, since};
use crate::device::{Completed, DEVICE_FATAL, Device, Failure, Pair};
use crate::wake::Wake;

/// Largest number of bytes that one command reads or writes.
pub const MAX_TRANSFER: u32 = 16 << 20;

/// Shortest interval of polling the completion queues while requests are outstanding. The interval is 1/64 of the time
/// since the last command or completion, so the time of a completion is accurate to 1.6 % of the wait.
const LOOK: Duration = Duration::from_micros(100);
/// Longest interval of polling the completion queues while requests are outstanding.
const SLOWEST_LOOK: Duration = Duration::from_millis(1);
/// Interval of reading the device's events while no requests are outstanding.
const IDLE_LOOK: Duration = Duration::from_millis(20);
/// Interval of checking that the device still exists.
const LOOK_FOR_DEVICE: Duration = Duration::from_millis(250);

/// The outcome of a command.
#[derive(Clone, PartialEq, Debug)]
pub struct Done {
    /// Events that precede the reply. They include every completion that was in any completion queue when the command
    /// was executed.
    pub before: Vec<Happened>,
    /// Time of the execution.
    pub at: Instant,
    /// The reply.
    pub reply: Reply,
}

/// An event, such as a completion, with its time.
#[derive(Clone, PartialEq, Debug)]
pub struct Happened {
    /// Time of the event.
    pub at: Instant,
    /// The event.
    pub event: Event,
}

/// The objects of one client on a device.
#[derive(Debug)]
pub struct Session<D: Device> {
    // The fields are dropped in this order.
    pairs: BTreeMap<u32, Held<D::Pair>>,
    memory: BTreeMap<u32, Region<D::Memory>>,
    device: D,
    limits: Limits,
    /// Time at which the post in progress called the driver.
    called_ns: Option<u64>,
    last_handle: u32,
    gone: Option<String>,
    looked_for_device_ns: u64,
    looked_for_reports_ns: u64,
    /// Time of the last command or completion.
    active_ns: u64,
}

/// A queue pair, and the state of its completion queue.
#[derive(Debug)]
struct Held<P> {
    pair: P,
    service: Service,
    /// Time when the completion queue was last seen empty. At first, a time before the queue was created.
    empty_ns: u64,
    /// Posted requests that have not completed. An unsignaled request that succeeds has no completion, and counts until
    /// the queue pair is reset.
    posted: u64,
    /// Handles of the memory that these requests may use: the memory of all requests posted since `posted` was last
    /// 0.
    names: Vec<u32>,
}

/// The result of polling all completion queues.
#[derive(Default)]
struct Found {
    happened: Vec<Happened>,
    /// Time when the first completion was polled.
    first_ns: Option<u64>,
}

/// Registered memory, and its length in bytes.
#[derive(Debug)]
struct Region<M> {
    memory: M,
    length: u32,
}

impl<D: Device> Session<D> {
    /// Begins a session on an open device.
    pub fn new(device: D, limits: Limits) -> Self {
        Self {
            pairs: BTreeMap::new(),
            memory: BTreeMap::new(),
            device,
            limits,
            called_ns: None,
            last_handle: 0,
            gone: None,
            looked_for_device_ns: now_ns(),
            looked_for_reports_ns: 0,
            active_ns: now_ns(),
        }
    }

    /// Returns the reason why the device is unusable, once the session has noticed this. The caller should then end the
    /// session.
    #[must_use]
    pub fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// Returns the completions and device events since the last call.
    pub fn events(&mut self) -> Vec<Happened> {
        let mut found = self.completions(now_ns());
        self.reports(&mut found.happened);
        found.happened
    }

    /// Polls for completions without a pause, so that the time of the first completion is accurate to one poll. Ends at
    /// the first completion, when `until` returns true, or after `at_most`.
    pub fn attend(&mut self, at_most: Duration, until: impl Fn() -> bool) -> Vec<Happened> {
        let begun = now_ns();
        let mut now = begun;
        loop {
            let found = self.completions(now);
            now = now_ns();
            let over = now.saturating_sub(begun) >= nanoseconds(at_most);
            if !found.happened.is_empty() || over || self.gone.is_some() || until() {
                return found.happened;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns the completions since the last poll. `begun` is a time before this poll.
    fn completions(&mut self, begun: u64) -> Found {
        let mut found = Found::default();
        for (handle, held) in &mut self.pairs {
            if let Err(failure) = held.drain(*handle, begun, &mut found) {
                self.gone.get_or_insert_with(|| {
                    format!("the completion queue of queue pair {handle} cannot be polled: {failure}")
                });
            }
        }
        self.active_ns = found.first_ns.unwrap_or(self.active_ns);
        found
    }

    /// Waits until `wake` is woken, the time is over, or the device must be polled again.
    pub fn wait(&mut self, wake: &Wake, timeout: Duration) {
        if self.gone.is_some() {
            return;
        }
        // Only posted requests complete, so the wait may be longer without them.
        let busy = self.pairs.values().any(|held| held.posted > 0);
        let quiet = Duration::from_nanos(now_ns().saturating_sub(self.active_ns));
        let look = if busy {
            (quiet / 64).clamp(LOOK, SLOWEST_LOOK)
        } else {
            IDLE_LOOK
        };
        wake.wait(timeout.min(look));
        if now_ns().saturating_sub(self.looked_for_device_ns) >= nanoseconds(LOOK_FOR_DEVICE) {
            self.look_for_device();
        }
    }

    fn look_for_device(&mut self) {
        self.looked_for_device_ns = now_ns();
        if self.gone.is_none() {
            self.gone = self.device.gone();
        }
    }

    /// Reads the device's events if the interval is over, even if commands follow each other without a pause.
    fn reports_if_due(&mut self, happened: &mut Vec<Happened>) {
        if now_ns().saturating_sub(self.looked_for_reports_ns) >= nanoseconds(IDLE_LOOK) {
            self.reports(happened);
        }
    }

    fn reports(&mut self, happened: &mut Vec<Happened>) {
        let begun = now_ns();
        self.looked_for_reports_ns = begun;
        loop {
            match self.device.next_report() {
                Ok(None) => return,
                Ok(Some(report)) => {
                    if report.name == DEVICE_FATAL {
                        self.gone
                            .get_or_insert_with(|| format!("the device reported {DEVICE_FATAL}"));
                    }
                    let qp = report.qpn.and_then(|qpn| self.handle_of(qpn)).unwrap_or(0);
                    let name = report.name;
                    happened.push(Happened {
                        at: since(begun),
                        event: Event {
                            kind: Some(event::Kind::AsyncEvent(AsyncEvent { name, qp })),
                        },
                    });
                }
                Err(failure) => {
                    self.gone
                        .get_or_insert_with(|| format!("the device's reports cannot be read: {failure}"));
                    return;
                }
            }
        }
    }

    fn handle_of(&self, qpn: u32) -> Option<u32> {
        let found = self.pairs.iter().find(|(_, held)| held.pair.qpn() == qpn);
        found.map(|(handle, _)| *handle)
    }

    /// Returns a handle that was never used, so that an outdated handle never names another object.
    fn new_handle(&mut self) -> Result<u32, Failure> {
        let next = self
            .last_handle
            .checked_add(1)
            .ok_or_else(|| Failure::refused("this session has used all 2^32 - 1 handles; open another session"))?;
        self.last_handle = next;
        Ok(next)
    }
}

impl<D: Device> Drop for Session<D> {
    fn drop(&mut self) {
        self.pairs.clear();
        self.memory.clear();
    }
}

impl<P: Pair> Held<P> {
    /// Takes all completions. `begun` is a time before the first poll. Reads the clock only after a poll that found
    /// completions, because reading the clock may take longer than a poll.
    fn drain(&mut self, handle: u32, mut begun: u64, found: &mut Found) -> Result<(), Failure> {
        let mut completed = Vec::new();
        loop {
            let Some(latest_ns) = self.pair.poll(&mut completed)? else {
                self.empty_ns = begun;
                return Ok(());
            };
            let at = Instant {
                earliest_ns: self.empty_ns,
                latest_ns,
            };
            found.first_ns.get_or_insert(at.latest_ns);
            begun = at.latest_ns;
            for completed in completed.drain(..) {
                self.posted = self.posted.saturating_sub(1);
                if self.posted == 0 {
                    self.names.clear();
                }
                found.happened.push(Happened {
                    at,
                    event: completion(handle, completed),
                });
            }
        }
    }
}

fn completion(qp: u32, completed: Completed) -> Event {
    Event {
        kind: Some(event::Kind::Completion(Completion {
            qp,
            wr_id: completed.wr_id,
            status: completed.status,
            opcode: completed.opcode,
            byte_len: completed.byte_len,
            imm: completed.imm,
            vendor_error: completed.vendor_error,
        })),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Converts a failure into a reply.
#[must_use]
pub fn refused(failure: Failure) -> Reply {
    Reply {
        kind: Some(reply::Kind::Refused(Refused {
            errno: failure.errno,
            text: failure.text,
        })),
    }
}
