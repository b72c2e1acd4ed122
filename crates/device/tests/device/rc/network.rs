//! Tests on a disturbed network. Conforming adapters execute each request once, as long as the disturbances do not
//! exceed the retry counters. With more disturbances, the right error completion arrives in time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use verbatim_device::rc::{Operation, QpState, WcStatus};
use verbatim_wire::{AckTimeout, Medium, Mtu, PKey, Packet, Psn, RnrTimer};

use super::adapters::{A, B, MEMORY, Pair, Setup, profile};

const REQUESTS: u32 = 12;
/// Size of the memory slot of each request, in bytes.
const SLOT: u32 = 4096;
/// Offset of the counter that the atomics increase.
const COUNTER: u32 = MEMORY - 8;

fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    rng.next_u64() % bound
}

fn setup(rng: &mut ChaCha8Rng) -> Setup {
    Setup {
        v6: below(rng, 2) == 1,
        mtu: Mtu(1 + below(rng, 5) as u8),
        timeout: AckTimeout(10 + below(rng, 6) as u8),
        retry_cnt: 2 + below(rng, 6) as u8,
        rnr_retry: 7,
        min_rnr_timer: RnrTimer(below(rng, 32) as u8),
        max_rd_atomic: 1 + below(rng, 4) as u8,
        psn: [Psn::new(rng.next_u32()), Psn::new(rng.next_u32())],
        ..Setup::default()
    }
}

fn pair(seed: u64, setup: &Setup) -> Pair {
    let (mut a, mut b) = (profile(A).vary(2 * seed), profile(B).vary(2 * seed + 1));
    // Shorten the ACK delay, because the ACK timeouts of this test are short.
    for end in [&mut a, &mut b] {
        end.choices.ack_delay = end.choices.ack_delay.min(Duration::from_micros(3));
    }
    if [&a, &b].iter().all(|of| of.p_keys == [PKey(0x7FFF)]) {
        // Two limited members of a partition cannot communicate.
        b.p_keys = vec![PKey(0xFFFF)];
    }
    let mut pair = Pair::of([a, b], [&[], &[]], setup);
    pair.fill(A, 0x11);
    pair.fill(B, 0x22);
    let handle = pair.memory[B].handle;
    pair.ends[B].write_memory(handle, COUNTER, &0u64.to_le_bytes()).unwrap();
    pair
}

/// The operation and size in bytes of a request.
#[derive(Clone, Copy, Debug)]
struct Plan {
    operation: Operation,
    size: u32,
}

fn plans(rng: &mut ChaCha8Rng) -> Vec<Plan> {
    (0..REQUESTS)
        .map(|_| {
            let operation = [
                Operation::Send,
                Operation::SendImm,
                Operation::Write,
                Operation::WriteImm,
                Operation::Read,
                Operation::FetchAdd,
            ][below(rng, 6) as usize];
            let size = if operation.is_atomic() {
                8
            } else {
                below(rng, 3000) as u32
            };
            Plan { operation, size }
        })
        .collect()
}

fn takes_receive(operation: Operation) -> bool {
    matches!(operation, Operation::Send | Operation::SendImm | Operation::WriteImm)
}

fn post(pair: &mut Pair, plans: &[Plan]) {
    for (at, plan) in (0..).zip(plans) {
        let to = if plan.operation.is_atomic() { COUNTER } else { at * SLOT };
        let mut request = pair.request(at.into(), plan.operation, at * SLOT, to, plan.size);
        request.swap_add = 1;
        pair.post(&request);
    }
}

/// Returns the indexes of the plans that need a receive. Each receive uses the memory slot with the index of its plan.
fn receives(plans: &[Plan]) -> Vec<u32> {
    (0..)
        .zip(plans)
        .filter(|(_, plan)| takes_receive(plan.operation))
        .map(|(at, _)| at)
        .collect()
}

/// Installs a link with delays of less than a quarter of the timeout. The link loses, repeats or reorders at most
/// `retry_cnt` - 1 frames between two completions and keeps all others in order. Returns the count of disturbances.
fn disturb(pair: &mut Pair, seed: u64, setup: &Setup, done: Rc<Cell<u64>>) -> Rc<Cell<u64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xD15);
    let most = setup.timeout.duration().unwrap().as_nanos() as u64 / 4 - 20_000;
    let budget = u64::from(setup.retry_cnt) - 1;
    let mut last = [Duration::ZERO; 2];
    let (mut spent, mut seen) = (0, 0);
    let disturbances = Rc::new(Cell::new(0));
    let count = disturbances.clone();
    pair.fate = Box::new(move |now, end, frame| {
        if done.get() != seen {
            (seen, spent) = (done.get(), 0);
        }
        let arrives = (now + Duration::from_nanos(below(&mut rng, most))).max(last[end]);
        let is_roce = Packet::parse(Medium::Ethernet, frame).is_ok();
        let disturbed = is_roce && spent < budget && below(&mut rng, 4) == 0;
        if !disturbed {
            last[end] = arrives;
            return vec![arrives - now];
        }
        spent += 1;
        count.set(count.get() + 1);
        match below(&mut rng, 4) {
            0 | 1 => vec![],
            2 => vec![
                arrives - now,
                arrives - now + Duration::from_nanos(below(&mut rng, most)),
            ],
            _ => vec![Duration::from_nanos(most)],
        }
    });
    disturbances
}

fn run(pair: &mut Pair, count: usize, done: &Cell<u64>, due: &mut Vec<(Duration, u32, Plan)>) {
    let until = Duration::from_secs(600);
    loop {
        let next = due.first().map_or(until, |&(at, ..)| at);
        let went = pair.step(next);
        done.set(pair.completions[A].len() as u64);
        if pair.completions[A].len() >= count {
            return;
        }
        if !went {
            assert!(next < until, "nothing more happens");
            let (_, slot, plan) = due.remove(0);
            pair.post_receive(slot.into(), slot * SLOT, plan.size.max(1));
        }
    }
}

#[test]
fn requests_execute_once_and_in_order() {
    let mut total = 0;
    for seed in 0..1000 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let setup = setup(rng);
        let plans = plans(rng);
        let mut pair = pair(seed, &setup);
        let done = Rc::new(Cell::new(0));
        let disturbances = disturb(&mut pair, seed, &setup, done.clone());
        // Post some receives at once and others later.
        let mut due = Vec::new();
        let mut late = Duration::ZERO;
        for slot in receives(&plans) {
            late += Duration::from_nanos(below(rng, 200_000_000)) * (below(rng, 3) / 2) as u32;
            due.push((late, slot, plans[slot as usize]));
        }
        let before = pair.bytes(B, 0, MEMORY);
        post(&mut pair, &plans);
        run(&mut pair, plans.len(), &done, &mut due);
        // Wait for B: its host may see a completed receive or the data of a WRITE only after B has sent the ACK.
        pair.run_for(Duration::from_secs(2));
        check(&pair, &plans, &before, seed);
        total += disturbances.get();
    }
    assert!(total > 5000, "the network was disturbed: {total}");
}

fn check(pair: &Pair, plans: &[Plan], before: &[u8], seed: u64) {
    let order: Vec<_> = pair.completions[A]
        .iter()
        .map(|done| (done.wr_id, done.status))
        .collect();
    let wanted: Vec<_> = (0..plans.len() as u64).map(|at| (at, WcStatus::SUCCESS)).collect();
    assert_eq!(order, wanted, "seed {seed}");
    let got: Vec<_> = pair.completions[B]
        .iter()
        .map(|done| (done.wr_id as u32, done.byte_len))
        .collect();
    let wanted: Vec<_> = receives(plans)
        .iter()
        .map(|&at| (at, plans[at as usize].size))
        .collect();
    assert_eq!(got, wanted, "seed {seed}");
    let mut added = 0u64;
    for (at, plan) in (0..).zip(plans) {
        let here = pair.bytes(A, at * SLOT, plan.size);
        match plan.operation {
            Operation::FetchAdd => {
                assert_eq!(here, added.to_le_bytes(), "seed {seed}: the {added}th addition");
                added += 1;
            }
            Operation::Read => {
                let start = (at * SLOT) as usize;
                assert_eq!(
                    here,
                    before[start..start + plan.size as usize],
                    "seed {seed}: READ {at}"
                );
            }
            _ => assert_eq!(here, pair.bytes(B, at * SLOT, plan.size), "seed {seed}: {plan:?} {at}"),
        }
    }
    assert_eq!(pair.bytes(B, COUNTER, 8), added.to_le_bytes(), "seed {seed}");
}

#[test]
fn dead_network_ends_in_retry_exceeded() {
    for seed in 0..300 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0xDEAD);
        let setup = setup(rng);
        let plans = plans(rng);
        let mut pair = pair(seed, &setup);
        for slot in receives(&plans) {
            pair.post_receive(slot.into(), slot * SLOT, plans[slot as usize].size.max(1));
        }
        // The network delivers some frames and then loses all others.
        let mut passes = 2 + below(rng, 20);
        let died = Rc::new(Cell::new(Duration::ZERO));
        let death = died.clone();
        pair.fate = Box::new(move |now, _, _| {
            if passes == 0 {
                return vec![];
            }
            passes -= 1;
            death.set(now);
            vec![Duration::from_micros(3)]
        });
        post(&mut pair, &plans);
        pair.run_until_completions(plans.len());
        let order: Vec<_> = pair.completions[A].iter().map(|done| done.wr_id).collect();
        assert_eq!(order, (0..plans.len() as u64).collect::<Vec<_>>(), "seed {seed}");
        let failed = pair.completions[A]
            .iter()
            .position(|done| done.status != WcStatus::SUCCESS);
        let Some(failed) = failed else {
            continue;
        };
        let error = pair.completions[A][failed];
        assert_eq!(error.status, WcStatus::RETRY_EXC_ERR, "seed {seed}");
        assert!(
            pair.completions[A][failed + 1..]
                .iter()
                .all(|done| done.status == WcStatus::WR_FLUSH_ERR)
        );
        assert_eq!(pair.ends[A].query(pair.qps[A]).unwrap().state, QpState::Err);
        let times = setup.retry_cnt + 1;
        let timeout = setup.timeout.duration().unwrap();
        let took = error.at - died.get();
        assert!(took >= timeout * u32::from(times) - timeout, "seed {seed}: {took:?}");
        // The last response may be an RNR NAK, with the configured RNR code or the next one. The requester may wait up
        // to a quarter longer than the code's interval.
        let next = RnrTimer((setup.min_rnr_timer.0 + 1) % 32).duration();
        let rnr = setup.min_rnr_timer.duration().max(next) * 5 / 4;
        let slack = Duration::from_micros(100) + rnr;
        assert!(took <= timeout * u32::from(times) * 4 + slack, "seed {seed}: {took:?}");
    }
}

#[test]
fn missing_receive_ends_in_rnr_exceeded() {
    for rnr_retry in 0..7 {
        for code in [1, 12, 31, 0] {
            let setup = Setup {
                rnr_retry,
                min_rnr_timer: RnrTimer(code),
                timeout: AckTimeout(10),
                ..Setup::default()
            };
            let mut pair = Pair::new(&setup);
            let send = pair.request(1, Operation::Send, 0, 0, 3000);
            pair.post(&send);
            pair.run_until_completions(1);
            let done = pair.completions[A][0];
            assert_eq!(done.status, WcStatus::RNR_RETRY_EXC_ERR);
            assert!(done.at >= RnrTimer(code).duration() * u32::from(rnr_retry));
            assert!(done.at <= RnrTimer(code).duration() * u32::from(rnr_retry) + Duration::from_millis(1));
            assert!(pair.completions[B].is_empty());
        }
    }
}

#[test]
fn rnr_retry_7_never_gives_up() {
    let setup = Setup {
        rnr_retry: 7,
        min_rnr_timer: RnrTimer(31),
        ..Setup::default()
    };
    let mut pair = Pair::new(&setup);
    let send = pair.request(1, Operation::Send, 0, 0, 100);
    pair.post(&send);
    pair.run_for(Duration::from_secs(600));
    assert!(pair.completions[A].is_empty());
    pair.post_receive(1, 0, 100);
    pair.run_until_completions(1);
    assert_eq!(pair.completions[A][0].status, WcStatus::SUCCESS);
}
