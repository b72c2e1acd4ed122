//! The requests that the kernel has outstanding.
//!
//! ib_mad holds each request until its response arrives or its timeout expires. Since Linux 6.17, an agent for subnet
//! management may have at most a quarter of the receive queue outstanding. The module parameter `recv_queue_size` sets
//! the length of that queue; its default allows 128 requests. Further requests wait inside the kernel unnoticed, and
//! the tester would take the missing response for a fault of the device. This module therefore limits the outstanding
//! requests to a lower number.

use core::time::Duration;
use std::time::Instant;

use verbatim_wire::Mad;

/// The time that the kernel waits beyond our own deadline. The tester records a response in that time as late; the
/// kernel drops any later response.
pub(super) const AFTERWARDS: Duration = Duration::from_secs(2);
/// After this further time a slot counts as free even if the kernel did not return the request. ibsim never returns
/// requests.
const SLACK: Duration = Duration::from_secs(1);
/// Upper limit of outstanding requests, for any kernel.
const MOST: usize = 96;
/// Length of the kernel's receive queue, if its parameter cannot be read.
const RECV_QUEUE: usize = 512;
const RECV_QUEUE_FILE: &str = "/sys/module/ib_core/parameters/recv_queue_size";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// A slot is free.
    Free,
    /// All slots are in use, and the tester still waits for at least one response.
    Taken,
    /// A request can be sent only after the port is reopened: the tester no longer waits for any of the requests in the
    /// slots.
    Stale,
}

/// An outstanding request.
#[derive(Debug)]
struct Held {
    request: Mad,
    /// The tester waits for the response until this time.
    given_up: Instant,
    /// The kernel has dropped the request by this time.
    over: Instant,
}

/// The outstanding requests.
#[derive(Debug)]
pub(super) struct Places {
    held: Vec<Held>,
    most: usize,
}

impl Places {
    /// Sets the limit for a kernel with a receive queue of that length.
    pub(super) fn new(recv_queue: usize) -> Self {
        // Three quarters of the kernel's own limit.
        let most = (recv_queue.min(RECV_QUEUE) / 4 * 3 / 4).clamp(1, MOST);
        Self { held: Vec::new(), most }
    }

    /// Sets the limit for this machine's kernel.
    pub(super) fn of_this_kernel() -> Self {
        let told = std::fs::read_to_string(RECV_QUEUE_FILE).ok();
        Self::new(told.and_then(|text| text.trim().parse().ok()).unwrap_or(RECV_QUEUE))
    }

    /// Adds a request that was sent at `now`, with its response timeout.
    pub(super) fn take(&mut self, request: Mad, now: Instant, answer_within: Duration) {
        let far = now + Duration::from_secs(86_400);
        let given_up = now.checked_add(answer_within).unwrap_or(far);
        let over = given_up.checked_add(AFTERWARDS + SLACK).unwrap_or(far);
        self.held.push(Held {
            request,
            given_up,
            over,
        });
    }

    /// Frees the slot of a request when its response arrives or the kernel returns it.
    pub(super) fn came(&mut self, mad: &Mad, errno: i32) {
        if errno == 0 && !mad.method().is_response() {
            return;
        }
        let id = |mad: &Mad| (mad.transaction_id() as u32, mad.class());
        if let Some(place) = self.held.iter().position(|held| id(&held.request) == id(mad)) {
            self.held.swap_remove(place);
        }
    }

    pub(super) fn room(&mut self, now: Instant) -> Room {
        self.held.retain(|held| held.over > now);
        if self.held.len() < self.most {
            Room::Free
        } else if self.held.iter().all(|held| held.given_up <= now) {
            Room::Stale
        } else {
            Room::Taken
        }
    }

    /// Stops waiting for all requests sent so far. Returns whether more than half of the slots are still in use, so
    /// that the port should be reopened.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        self.held.retain(|held| held.over > now);
        for held in &mut self.held {
            held.given_up = held.given_up.min(now);
        }
        self.held.len() > self.most / 2
    }

    /// Frees all slots after the port was reopened, and returns their requests.
    pub(super) fn clear(&mut self) -> Vec<Mad> {
        self.held.drain(..).map(|held| held.request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_wire::{AttributeId, Method};

    const WITHIN: Duration = Duration::from_secs(5);

    fn request(id: u64) -> Mad {
        Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]).with_transaction_id(id)
    }

    fn full(now: Instant) -> Places {
        let mut places = Places::new(512);
        for id in 0..96 {
            assert_eq!(places.room(now), Room::Free);
            places.take(request(id), now, WITHIN);
        }
        places
    }

    #[test]
    fn limit_follows_kernel_receive_queue() {
        assert_eq!(Places::new(64).most, 12);
        assert_eq!(Places::new(512).most, 96);
        assert_eq!(Places::new(8192).most, 96);
        assert_eq!(Places::new(0).most, 1);
    }

    #[test]
    fn response_or_return_frees_one_slot() {
        let now = Instant::now();
        let mut places = full(now);
        assert_eq!(places.room(now), Room::Taken);
        let answer = |id| Mad::directed(Method::GET_RESP, AttributeId::PORT_INFO, 0, &[1]).with_transaction_id(id);
        let by_lid = Mad::lid_routed(Method::GET_RESP, AttributeId::PORT_INFO, 0).with_transaction_id(7);
        for stranger in [answer(1000), by_lid, request(7)] {
            places.came(&stranger, 0);
            assert_eq!(places.room(now), Room::Taken, "{stranger}");
        }
        // The kernel writes its agent number into the upper half of the transaction ID.
        places.came(&answer(0xABCD_0000_0000_0007), 0);
        assert_eq!(places.room(now), Room::Free);
        places.came(&request(8), 110);
        assert_eq!(places.held.len(), 94);
    }

    #[test]
    fn abandoned_requests_become_stale_then_free() {
        let now = Instant::now();
        let mut places = full(now);
        let silent = now + WITHIN;
        assert_eq!(places.room(silent), Room::Stale);
        assert_eq!(places.room(silent + AFTERWARDS + SLACK), Room::Free);

        let mut places = full(now);
        assert!(places.give_up(now));
        assert_eq!(places.room(now), Room::Stale);
        assert_eq!(places.clear().len(), 96);
        assert_eq!(places.room(now), Room::Free);

        let mut places = Places::new(512);
        places.take(request(1), now, Duration::MAX);
        assert!(!places.give_up(now), "one is no reason to open the port anew");
    }

    /// Models a window of 64 and a device that never responds, with a kernel that returns each request in time.
    #[test]
    fn never_exceeds_96_outstanding_requests() {
        let tick = Duration::from_millis(10);
        let (mut now, mut places) = (Instant::now(), Places::new(512));
        let mut kernel: Vec<(Instant, u64)> = Vec::new();
        let (mut waiting, mut sent, mut silent) = (Vec::<Instant>::new(), 0_u64, 0_u64);
        while silent < 1000 {
            let before = waiting.len();
            waiting.retain(|deadline| *deadline > now);
            silent += (before - waiting.len()) as u64;
            while waiting.len() < 64 && sent < 1000 {
                match places.room(now) {
                    Room::Free => {}
                    Room::Taken => break,
                    Room::Stale => {
                        places.clear();
                        kernel.clear();
                    }
                }
                places.take(request(sent), now, WITHIN);
                kernel.push((now + WITHIN + AFTERWARDS, sent));
                waiting.push(now + WITHIN);
                sent += 1;
            }
            assert!(kernel.len() <= 96, "{} in the kernel", kernel.len());
            now += tick;
            kernel.retain(|(over, id)| {
                let keeps = *over > now;
                if !keeps {
                    places.came(&request(*id), 110);
                }
                keeps
            });
        }
        assert_eq!(sent, 1000);
    }
}
