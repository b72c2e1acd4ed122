//! Legal choices of an adapter, at their extremes. No test may fail because of a choice.

use core::time::Duration;

use verbatim_catalog::TESTS;
use verbatim_device::Profile;
use verbatim_device::rc::AdapterChoices;
use verbatim_record::{Outcome, Side, Verdict};
use verbatim_sim::VirtualRig;
use verbatim_tester::RigInfo;
use verbatim_tests::judged::{judged, test};
use verbatim_wire::MKey;

/// Judges a test on an adapter with these choices, by the rules of hardware.
fn verdict(id: &str, choices: AdapterChoices) -> Verdict {
    verdict_by(id, choices, false)
}

fn verdict_by(id: &str, choices: AdapterChoices, simulated: bool) -> Verdict {
    let mut adapter = VirtualRig::adapter_profile(Side::Dut);
    adapter.choices = choices;
    let mut rig = VirtualRig::new(Profile::full(), &[]).with_adapter(adapter, &[]);
    let info = RigInfo {
        simulated,
        ..VirtualRig::info(MKey(0))
    };
    judged(&mut rig, &info, test(id), 1, &[]).verdict
}

#[test]
fn repeated_read_may_ignore_r_key() {
    let choices = AdapterChoices {
        repeats_read_without_r_key: true,
        ..AdapterChoices::default()
    };
    let verdict = verdict("c09-duplicates", choices);
    assert_eq!(verdict.outcome(), Outcome::Pass, "{}", verdict.reason);
}

#[test]
fn one_packet_in_flight_is_legal() {
    let choices = AdapterChoices {
        window: 1,
        ..AdapterChoices::default()
    };
    for id in ["c09-142-timer-restart", "c09-060-coalesced-ack"] {
        let verdict = verdict(id, choices);
        // These tests judge several packets that are outstanding together, which this adapter never has.
        assert_eq!(verdict.outcome(), Outcome::Inconclusive, "{id}: {}", verdict.reason);
    }
}

#[test]
fn responder_may_postpone_reads_once() {
    let choices = AdapterChoices {
        puts_reads_off: true,
        ..AdapterChoices::default()
    };
    let ids = [
        "c09-027-atomic-after-reads",
        "c09-027-write-after-reads",
        "c09-027-send-after-reads",
        "c09-027-reads-after-atomic",
        "c09-psn-regions",
        "c09-psn-sequence",
    ];
    for (id, simulated) in ids.into_iter().flat_map(|id| [(id, true), (id, false)]) {
        let verdict = verdict_by(id, choices, simulated);
        assert_eq!(verdict.outcome(), Outcome::Pass, "{id}: {}", verdict.reason);
    }
}

#[test]
fn late_data_and_serial_sends_are_legal() {
    let late = AdapterChoices {
        send_delay: Duration::from_micros(200),
        write_delay: Duration::from_micros(200),
        ..AdapterChoices::default()
    };
    let one = AdapterChoices {
        one_message_at_a_time: true,
        psns_gone_in_err: true,
        ..AdapterChoices::default()
    };
    let cases = [
        ("c09-060-write-responder", late),
        ("c09-psn-regions", late),
        ("c09-long-messages", late),
        ("c09-send-queue-drain", one),
        ("c09-flush", one),
        ("c09-local-errors", one),
    ];
    for (id, choices) in cases {
        for simulated in [true, false] {
            let verdict = verdict_by(id, choices, simulated);
            assert_eq!(verdict.outcome(), Outcome::Pass, "{id}: {}", verdict.reason);
        }
    }
}

#[test]
fn late_events_and_notice_class_are_legal() {
    let late = AdapterChoices {
        event_delay: Duration::from_millis(1),
        ..AdapterChoices::default()
    };
    let apart = AdapterChoices {
        notifies_congestion: true,
        notices_apart: true,
        ..AdapterChoices::default()
    };
    // With this delay, an event arrives only after the cause of the next event, and after the next reset.
    let much_later = AdapterChoices {
        event_delay: Duration::from_millis(2600),
        ..AdapterChoices::default()
    };
    let seen = verdict("c09-events", much_later);
    assert_eq!(seen.outcome(), Outcome::Inconclusive, "{}", seen.reason);
    let cases = [
        ("c09-events", late),
        ("c09-modify-attributes", late),
        ("c09-send-queue-drain", late),
        ("c09-network-headers", apart),
    ];
    for (id, choices) in cases {
        for simulated in [true, false] {
            let verdict = verdict_by(id, choices, simulated);
            assert_eq!(verdict.outcome(), Outcome::Pass, "{id}: {}", verdict.reason);
        }
    }
}

#[test]
fn late_adapter_fails_no_test() {
    let of = |alter: fn(&mut AdapterChoices)| {
        let mut choices = AdapterChoices::default();
        alter(&mut choices);
        choices
    };
    let all = [
        of(|of| of.write_delay = Duration::from_millis(3)),
        of(|of| of.write_delay = Duration::from_secs(1)),
        of(|of| of.ack_delay = Duration::from_secs(1)),
        of(|of| of.port_gap = Duration::from_micros(20)),
    ];
    for (id, choices) in TESTS
        .iter()
        .map(|test| test.id)
        .flat_map(|id| all.map(|choices| (id, choices)))
    {
        if !id.starts_with("c09-") {
            continue;
        }
        for simulated in [true, false] {
            let verdict = verdict_by(id, choices, simulated);
            assert_ne!(verdict.outcome(), Outcome::Fail, "{id} {choices:?}: {}", verdict.reason);
        }
    }
}
