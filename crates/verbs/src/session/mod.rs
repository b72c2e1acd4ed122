//! A session: what one client made on a device, and how its commands are done.
//!
//! Synchronous, owned by one thread. Everything that a session made is destroyed when it is dropped: queue pairs with
//! their completion queues, then memory, then protection domain and device.
//!
//! # Times
//!
//! On [`crate::clock`]. A command's answer: from before the call until after it. A completion: from when its completion
//! queue was last seen empty until it was taken out. Queues are looked into before each command, so no completion is said
//! to be older than what was posted for it; without a pause for up to a millisecond after a post; and then, while requests
//! are posted, every 100 µs, so that the span stays short when a completion is late.

mod commands;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use verbatim_proto::agent::{AsyncEvent, Completion, Event, Instant, Refused, Reply, Service, event, reply};

pub use limits::Limits;

use crate::clock::{now_ns, since};
use crate::device::{Completed, DEVICE_FATAL, Device, Failure, Pair};
use crate::wake::Wake;

/// The most bytes that one command reads or writes.
pub const MAX_TRANSFER: u32 = 16 << 20;

/// How often completion queues are looked into while requests are posted.
const LOOK: Duration = Duration::from_micros(100);
/// How often the device's reports are looked for while nothing is posted.
const IDLE_LOOK: Duration = Duration::from_millis(20);
/// How often it is looked whether the device is still there.
const LOOK_FOR_DEVICE: Duration = Duration::from_millis(250);

/// A command done.
#[derive(Clone, PartialEq, Debug)]
pub struct Done {
    /// What happened until then: every completion that was in any completion queue when the command was done.
    pub before: Vec<Happened>,
    /// When it was done.
    pub at: Instant,
    /// What it came to.
    pub reply: Reply,
}

/// Something that happened without being asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Happened {
    /// When.
    pub at: Instant,
    /// What.
    pub event: Event,
}

/// What one client made on a device.
#[derive(Debug)]
pub struct Session<D: Device> {
    // Fields are dropped in this order.
    pairs: BTreeMap<u32, Held<D::Pair>>,
    memory: BTreeMap<u32, Region<D::Memory>>,
    device: D,
    limits: Limits,
    /// When the driver was called by the post that is being done.
    called_ns: Option<u64>,
    last_handle: u32,
    gone: Option<String>,
    looked_for_device_ns: u64,
    looked_for_reports_ns: u64,
}

/// A queue pair, and what is known of its completion queue.
#[derive(Debug)]
struct Held<P> {
    pair: P,
    service: Service,
    /// When its completion queue was last seen empty, or before it was made.
    empty_ns: u64,
    /// Requests posted that have not completed. One whose success is not signalled counts until the end.
    posted: u64,
    /// The memory that these requests name, as far as it is known: all since there were none.
    names: Vec<u32>,
}

/// What a look found.
#[derive(Default)]
struct Found {
    happened: Vec<Happened>,
    /// When the first completion had been found.
    first_ns: Option<u64>,
}

/// Memory, and its length.
#[derive(Debug)]
struct Region<M> {
    memory: M,
    length: u32,
}

impl<D: Device> Session<D> {
    /// A session on an open device.
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
        }
    }

    /// Why the device is of no use any more, once that was seen. The session is best ended then.
    #[must_use]
    pub fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// What happened since the last look: completions, and what the device reported.
    pub fn events(&mut self) -> Vec<Happened> {
        let mut found = self.completions(now_ns());
        self.reports(&mut found.happened);
        found.happened
    }

    /// Looks for completions without a pause, so that the first to come is known to the time of one look: until there is
    /// one, `until` says so, or the time is over.
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

    /// The completions since the last look, by a look that begins at `begun` or later.
    fn completions(&mut self, begun: u64) -> Found {
        let mut found = Found::default();
        for (handle, held) in &mut self.pairs {
            if let Err(failure) = held.drain(*handle, begun, &mut found) {
                self.gone.get_or_insert_with(|| {
                    format!("the completion queue of queue pair {handle} cannot be polled: {failure}")
                });
            }
        }
        found
    }

    /// Waits until something may have happened, `wake` is woken, or the time is over.
    pub fn wait(&mut self, wake: &Wake, timeout: Duration) {
        if self.gone.is_some() {
            return;
        }
        // Nothing completes that was not posted.
        let busy = self.pairs.values().any(|held| held.posted > 0);
        wake.wait(timeout.min(if busy { LOOK } else { IDLE_LOOK }));
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

    /// What the device reported, however many commands come one after the other.
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

    /// A handle that was never given out: one kept by mistake must not name something else.
    fn new_handle(&mut self) -> Result<u32, Failure> {
        let next = self.last_handle.checked_add(1).ok_or_else(|| {
            Failure::refused("this session has given out all its 2^32 - 1 handles; open another session")
        })?;
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
    /// Takes all completions out, at `begun` or later. The clock is read where something was found, and nowhere else: to
    /// read it may take longer than to look.
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

/// A refusal as a reply.
#[must_use]
pub fn refused(failure: Failure) -> Reply {
    Reply {
        kind: Some(reply::Kind::Refused(Refused {
            errno: failure.errno,
            text: failure.text,
        })),
    }
}
