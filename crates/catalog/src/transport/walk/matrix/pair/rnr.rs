//! Rows with messages that find no receive: each interval of an RNR NAK, and each number of retries.

use core::time::Duration;

use verbatim_record::verbs::pb::Operation as O;
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use super::super::parts::{self, Cells};
use super::scene::{ROLE, Scene, When, post};
use crate::cover::{Factor, Family, Partial};

const OPERATION: Factor = Factor {
    name: "operation",
    values: &["SEND", "SEND with Immediate", "WRITE with Immediate"],
};

pub(in super::super) static INTERVALS: Family = Family {
    name: "pair-rnr",
    factors: &[
        ROLE,
        Factor {
            name: "min_rnr_timer",
            values: &[
                "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18",
                "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31", "0",
            ],
        },
        OPERATION,
        Factor {
            name: "receive",
            values: &["never", "late"],
        },
    ],
    refuses: |_| None,
};

pub(in super::super) fn interval(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    scene.answers.min_rnr_timer = RnrTimer(cells.value("min_rnr_timer").parse().unwrap_or(1));
    // The requester's own code differs, so that a requester that uses it shows.
    scene.asks.min_rnr_timer = RnrTimer(scene.answers.min_rnr_timer.0.wrapping_add(16) % 32);
    // The ACK timeout is shorter than the long intervals, and must not end a wait that an RNR NAK began.
    scene.asks.timeout = AckTimeout(15);
    scene.posts = vec![post(parts::operation(cells.value("operation")), 300)];
    match cells.value("receive") {
        "late" => {
            scene = scene.with_fitting_receives();
            // The requester retries each 0.01 ms at the shortest interval.
            scene.when = When::Late(Duration::from_micros(if cells.simulated { 1_500 } else { 6_000 }));
        }
        _ => scene.asks.rnr_retry = 2,
    }
    scene
}

pub(in super::super) static RETRIES: Family = Family {
    name: "pair-rnr-retry",
    factors: &[
        ROLE,
        Factor {
            name: "rnr_retry",
            values: &["1", "0", "2", "3", "4", "5", "6", "7"],
        },
        Factor {
            name: "receive",
            values: &["never", "in time", "in time for each message"],
        },
        OPERATION,
        Factor {
            name: "behind",
            values: &["nothing", "a WRITE", "a READ"],
        },
        Factor {
            name: "before",
            values: &["nothing", "a WRITE", "a SEND and a READ"],
        },
        Factor {
            name: "retry_cnt",
            values: &["7", "0"],
        },
    ],
    refuses: |row: &Partial<'_>| match (row.value("rnr_retry"), row.value("receive")) {
        ("0", "in time" | "in time for each message") => Some("without a retry no receive comes in time"),
        _ => None,
    },
};

pub(in super::super) fn retries(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    let retries: u8 = cells.value("rnr_retry").parse().unwrap_or(1);
    scene.answers.min_rnr_timer = RnrTimer(24);
    scene.asks.rnr_retry = retries;
    scene.asks.timeout = AckTimeout(15);
    scene.asks.retry_cnt = cells.value("retry_cnt").parse().unwrap_or(7);
    let operation = parts::operation(cells.value("operation"));
    match cells.value("behind") {
        "a WRITE" => scene.posts.push(post(O::Write, 300)),
        "a READ" => scene.posts.push(post(O::Read, 600)),
        _ => {}
    }
    scene.posts.push(post(operation, 300));
    match cells.value("before") {
        "a WRITE" => scene.posts.push(post(O::Write, 8)),
        "a SEND and a READ" => scene.posts.extend([post(O::Send, 8), post(O::Read, 8)]),
        _ => {}
    }
    let receive = cells.value("receive");
    if receive == "never" {
        scene.halts = retries == 7;
        return scene;
    }
    // Half an interval before the last retry.
    let tries = u32::from(retries.min(6));
    let late = scene.answers.min_rnr_timer.duration() * (2 * tries - 1) / 2;
    scene.when = When::Late(late);
    if receive == "in time for each message" {
        scene.posts = vec![post(operation, 300), post(O::Send, 8), post(operation, 70)];
        scene.when = When::EachLate(late);
    }
    scene.with_fitting_receives()
}
