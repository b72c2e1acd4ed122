//! Rows with a responder that ignores the requests, always or for a limited time.

use verbatim_record::verbs::pb::{Operation as O, QpState};
use verbatim_wire::packet::AckTimeout;

use super::super::parts::{self, Cells};
use super::scene::{Peer, ROLE, Scene, post};
use crate::cover::{Factor, Family, Partial};

pub(in super::super) static FAMILY: Family = Family {
    name: "pair-timeout",
    factors: &[
        ROLE,
        Factor {
            name: "retry_cnt",
            values: &["1", "0", "2", "3", "4", "5", "6", "7"],
        },
        Factor {
            name: "responder",
            values: &["in ERR", "in RESET", "in INIT", "destroyed", "back in time"],
        },
        Factor {
            name: "operation",
            values: &["SEND", "WRITE", "WRITE with Immediate", "READ", "CmpSwap", "FetchAdd"],
        },
        Factor {
            name: "ACK timeout",
            values: &["16", "17"],
        },
        Factor {
            name: "later requests",
            values: &["nothing", "a WRITE", "a SEND and a READ"],
        },
        Factor {
            name: "rnr_retry",
            values: &["7", "0"],
        },
    ],
    refuses: |row: &Partial<'_>| match (row.value("retry_cnt"), row.value("responder")) {
        ("0" | "1" | "2" | "3", "back in time") => {
            Some("with at most 3 retries the requester gives up before the responder is back")
        }
        (_, "back in time") if row.value("rnr_retry") == "0" => Some("the receives are posted once it is back"),
        _ => None,
    },
};

pub(in super::super) fn scene(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    scene.asks.retry_cnt = cells.value("retry_cnt").parse().unwrap_or(1);
    scene.asks.rnr_retry = cells.value("rnr_retry").parse().unwrap_or(7);
    scene.asks.timeout = AckTimeout(cells.value("ACK timeout").parse().unwrap_or(16));
    let operation = parts::operation(cells.value("operation"));
    let length = if super::scene::is_atomic(operation) { 8 } else { 700 };
    scene.posts.push(post(operation, length));
    match cells.value("later requests") {
        "a WRITE" => scene.posts.push(post(O::Write, 8)),
        "a SEND and a READ" => scene.posts.extend([post(O::Send, 8), post(O::Read, 300)]),
        _ => {}
    }
    scene.peer = match cells.value("responder") {
        "in RESET" => Peer::In(QpState::Reset),
        "in INIT" => Peer::In(QpState::Init),
        "destroyed" => Peer::Destroyed,
        "back in time" => Peer::Back,
        _ => Peer::In(QpState::Err),
    };
    match scene.peer {
        Peer::Back => scene.with_fitting_receives(),
        _ => scene,
    }
}
