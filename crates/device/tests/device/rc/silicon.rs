//! Tests of the models of real adapters against published measurements: unionxic/rdma-fault-characterization,
//! ack_timeout, results of 2026-09-25.

use std::time::Duration;

use verbatim_device::rc::{Operation, WcStatus};
use verbatim_wire::AckTimeout;

use super::adapters::{A, B, Pair, Setup, profile};

/// Posts a request that gets no response. Returns the times of its transmissions, and the time of its error completion.
fn unanswered(conforming: bool, code: u8, retry_cnt: u8) -> (Vec<Duration>, Duration) {
    let setup = Setup {
        timeout: AckTimeout(code),
        retry_cnt,
        ..Setup::default()
    };
    let mut pair = Pair::of([profile(A).connectx_6(conforming), profile(B)], [&[], &[]], &setup);
    // Deliver ARP, so that the address resolves, and drop all IPv4 packets.
    pair.fate = Box::new(|_, _, frame| match frame.get(12..14) {
        Some([0x08, 0x00]) => Vec::new(),
        _ => vec![Duration::from_micros(1)],
    });
    let request = pair.request(1, Operation::Write, 0, 0, 64);
    pair.post(&request);
    let until = Duration::from_secs(120);
    while pair.completions[A].is_empty() && pair.step(until) {}
    assert_eq!(pair.completions[A][0].status, WcStatus::RETRY_EXC_ERR);
    (pair.packets(A).iter().map(|(at, _)| *at).collect(), pair.now)
}

fn within_1_percent(seen: Duration, published_ms: f64) -> bool {
    (seen.as_secs_f64() * 1e3 - published_ms).abs() <= published_ms / 100.0
}

#[test]
fn connectx_6_retries_as_published() {
    for (code, interval) in [
        (1, 536.9),
        (8, 536.9),
        (14, 536.9),
        (16, 536.9),
        (17, 1073.8),
        (18, 2147.6),
    ] {
        let (sent, _) = unanswered(false, code, 7);
        let last = sent[sent.len() - 1] - sent[sent.len() - 2];
        assert!(within_1_percent(last, interval), "code {code}: {last:?}");
        assert!(
            (10..=17).contains(&sent.len()),
            "code {code}: {} transmissions",
            sent.len()
        );
        assert!(sent[1] >= Duration::from_millis(12), "code {code}: {:?}", sent[1]);
    }
    // The columns: retry_cnt, median time to the error completion in ms at code 14, range of the number of
    // transmissions.
    let published = [
        (1, 440.6, 4..=7),
        (2, 977.6, 5..=8),
        (3, 1514.3, 6..=9),
        (7, 3661.8, 10..=13),
    ];
    for (retry_cnt, detected, transmissions) in published {
        let (sent, told) = unanswered(false, 14, retry_cnt);
        assert!(within_1_percent(told, detected), "retry_cnt {retry_cnt}: {told:?}");
        assert!(
            transmissions.contains(&sent.len()),
            "retry_cnt {retry_cnt}: {}",
            sent.len()
        );
    }
    assert_eq!(unanswered(false, 14, 0).0.len(), 8);
    let (sent, told) = unanswered(false, 20, 7);
    assert!(
        within_1_percent(told, 59_766.0) && (16..=17).contains(&sent.len()),
        "{told:?}, {}",
        sent.len()
    );
}

#[test]
fn connectx_6_without_floor_keeps_timeout() {
    for (code, retry_cnt) in [(8, 7), (14, 0), (14, 7), (18, 3)] {
        let once = AckTimeout(code).duration().unwrap();
        let (sent, told) = unanswered(true, code, retry_cnt);
        assert_eq!(sent.len(), 1 + usize::from(retry_cnt));
        assert!(sent.windows(2).skip(1).all(|pair| pair[1] - pair[0] == once));
        let silent = told - once * (u32::from(retry_cnt) + 1);
        assert!(
            silent >= once * 51 / 100 && silent <= once * 116 / 100 + Duration::from_micros(10),
            "{silent:?}"
        );
    }
}
