//! What the kernel keeps of the requests on their way.
//!
//! ib_mad keeps each request until its answer comes or its time is over, and since Linux 6.17 it sends no more than a
//! quarter of its receive queue at a time from one agent of subnet management: 128, where the module's parameter
//! `recv_queue_size` is as usual. What is written beyond that waits inside the kernel without a word, and would be taken
//! for a request that the device did not answer. So this side never has as many on their way.

use core::time::Duration;
use std::time::Instant;

use verbatim_wire::Mad;

/// How long beyond our own deadline the kernel goes on waiting: an answer that comes in that time is seen, and recorded as
/// late; one that comes later the kernel drops.
pub(super) const AFTERWARDS: Duration = Duration::from_secs(2);
/// After so much more a place counts as free although the kernel did not give the request back, as ibsim never does.
const SLACK: Duration = Duration::from_secs(1);
/// Requests on their way at most, whatever the kernel would bear.
const MOST: usize = 96;
/// The kernel's own receive queue, where its parameter cannot be read.
const RECV_QUEUE: usize = 512;
const RECV_QUEUE_FILE: &str = "/sys/module/ib_core/parameters/recv_queue_size";

/// Whether one more request can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// Yes.
    Free,
    /// Not now; what is on its way is still waited for.
    Taken,
    /// Only when the port is opened anew: nobody waits for any of those that the kernel keeps.
    Stale,
}

/// A request that the kernel keeps.
#[derive(Debug)]
struct Held {
    request: Mad,
    /// From then on nobody waits for its answer.
    given_up: Instant,
    /// By then the kernel has let go of it.
    over: Instant,
}

/// The requests that the kernel keeps.
#[derive(Debug)]
pub(super) struct Places {
    held: Vec<Held>,
    most: usize,
}

impl Places {
    /// For a kernel with a receive queue of that length.
    pub(super) fn new(recv_queue: usize) -> Self {
        // Three quarters of what the kernel sends at a time.
        let most = (recv_queue.min(RECV_QUEUE) / 4 * 3 / 4).clamp(1, MOST);
        Self { held: Vec::new(), most }
    }

    /// For this machine's kernel.
    pub(super) fn of_this_kernel() -> Self {
        let told = std::fs::read_to_string(RECV_QUEUE_FILE).ok();
        Self::new(told.and_then(|text| text.trim().parse().ok()).unwrap_or(RECV_QUEUE))
    }

    /// A request was sent, whose answer is waited for that long.
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

    /// Something came: an answer frees its request's place, and so does a request that comes back.
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

    /// Nobody waits any more for what was sent so far. Whether so much of it is left that the port should be opened anew.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        self.held.retain(|held| held.over > now);
        for held in &mut self.held {
            held.given_up = held.given_up.min(now);
        }
        self.held.len() > self.most / 2
    }

    /// The port was opened anew, which frees all: what the kernel kept.
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
    fn a_small_receive_queue_of_the_kernel_leaves_few_places_and_a_large_one_no_more_than_96() {
        assert_eq!(Places::new(64).most, 12);
        assert_eq!(Places::new(512).most, 96);
        assert_eq!(Places::new(8192).most, 96);
        assert_eq!(Places::new(0).most, 1);
    }

    #[test]
    fn an_answer_or_a_return_frees_one_place_and_what_only_looks_alike_does_not() {
        let now = Instant::now();
        let mut places = full(now);
        assert_eq!(places.room(now), Room::Taken);
        let answer = |id| Mad::directed(Method::GET_RESP, AttributeId::PORT_INFO, 0, &[1]).with_transaction_id(id);
        let by_lid = Mad::lid_routed(Method::GET_RESP, AttributeId::PORT_INFO, 0).with_transaction_id(7);
        for stranger in [answer(1000), by_lid, request(7)] {
            places.came(&stranger, 0);
            assert_eq!(places.room(now), Room::Taken, "{stranger}");
        }
        // The kernel writes its agent into the upper half.
        places.came(&answer(0xABCD_0000_0000_0007), 0);
        assert_eq!(places.room(now), Room::Free);
        places.came(&request(8), 110);
        assert_eq!(places.held.len(), 94);
    }

    #[test]
    fn places_of_requests_that_nobody_waits_for_are_stale_and_free_when_the_kernel_let_go() {
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

    /// What a window of 64 does with a device that never answers, against a kernel that gives each request back in time.
    #[test]
    fn of_a_thousand_silences_in_a_row_never_more_than_96_are_in_the_kernel() {
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
