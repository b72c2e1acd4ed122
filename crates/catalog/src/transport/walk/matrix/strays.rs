//! Rows with packets that must have no effect, in the states of the DUT's queue pair.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_wire::packet::NakCode;

use super::super::step::{Alteration, Fault, Step, Stray, WalkConnection, Want};
use super::parts::{self, Cells, FIRST_PSN, HISTORY, PATH_MTU, want};
use crate::cover::{Factor, Family, Partial};

pub(super) static FAMILY: Family = Family {
    name: "strays",
    factors: &[
        Factor {
            name: "stray",
            values: &[
                "stale ACK",
                "ghost ACK",
                "stale sequence NAK",
                "ghost sequence NAK",
                "stale RNR NAK",
                "ghost RNR NAK",
                "stale NAK, invalid request",
                "stale NAK, remote access",
                "stale NAK, remote operational",
                "stale READ response",
                "ghost READ response",
                "WRITE with a wrong ICRC",
                "WRITE with TVer 1",
                "WRITE with another P_Key",
                "WRITE of another service",
                "WRITE to no queue pair",
                "WRITE from elsewhere",
                "WRITE ahead",
                "SEND from before",
                "CNP",
            ],
        },
        Factor {
            name: "distance",
            values: &["1", "2", "5", "65536", "8388000"],
        },
        Factor {
            name: "state",
            values: &["idle", "waiting", "waiting long", "within a READ", "between requests"],
        },
        Factor {
            name: "operation",
            values: &["SEND", "WRITE", "READ", "FetchAdd", "WRITE with Immediate"],
        },
        PATH_MTU,
        FIRST_PSN,
        HISTORY,
        Factor {
            name: "times",
            values: &["once", "twice"],
        },
    ],
    refuses,
};

fn has_distance(stray: &str) -> bool {
    stray.starts_with("stale") || stray.starts_with("ghost") || matches!(stray, "WRITE ahead" | "SEND from before")
}

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (stray, distance, state) = (row.value("stray"), row.value("distance"), row.value("state"));
    let operation = row.value("operation");
    if !stray.is_empty() && !has_distance(stray) && !matches!(distance, "" | "1") {
        return Some("the packet has the expected PSN");
    }
    if stray == "WRITE ahead" && matches!(distance, "1" | "2" | "5") {
        return Some("the epilogue uses these PSNs");
    }
    if state == "within a READ" && !matches!(operation, "" | "READ") {
        return Some("only a READ has several responses");
    }
    None
}

pub(super) fn connection(cells: &Cells<'_>) -> WalkConnection {
    let by: u32 = cells.value("distance").parse().unwrap_or(1);
    let stray = match cells.value("stray") {
        "ghost ACK" => Stray::GhostAck(by),
        "stale sequence NAK" => Stray::StaleNak(by),
        "ghost sequence NAK" => Stray::GhostNak(by),
        "stale RNR NAK" => Stray::StaleRnr(by),
        "ghost RNR NAK" => Stray::GhostRnr(by),
        "stale NAK, invalid request" => Stray::StaleFatal(NakCode::INVALID_REQUEST, by),
        "stale NAK, remote access" => Stray::StaleFatal(NakCode::REMOTE_ACCESS, by),
        "stale NAK, remote operational" => Stray::StaleFatal(NakCode::REMOTE_OPERATIONAL, by),
        "stale READ response" => Stray::StaleRead(by),
        "ghost READ response" => Stray::GhostRead(by),
        "WRITE with a wrong ICRC" => Stray::BadIcrc(17),
        "WRITE with TVer 1" => Stray::Altered(Alteration::TVer(1)),
        "WRITE with another P_Key" => Stray::Altered(Alteration::PKey(14)),
        "WRITE of another service" => Stray::Altered(Alteration::OtherService),
        "WRITE to no queue pair" => Stray::Altered(Alteration::OtherQp),
        "WRITE from elsewhere" => Stray::Altered(Alteration::OtherSource),
        "WRITE ahead" => Stray::Ahead(by),
        "SEND from before" => Stray::Behind(by),
        "CNP" => Stray::Cnp,
        _ => Stray::StaleAck(by),
    };
    let operation = parts::operation(cells.value("operation"));
    let length = match operation {
        O::FetchAdd => 8,
        _ => 2 * cells.mtu().min(1024) + 5,
    };
    let subject = want(operation, length);
    let fenced = Want {
        fence: true,
        ..want(O::Send, 8)
    };
    // The PSNs before the subject belong to completed requests of several kinds.
    let done = vec![
        want(O::Send, 8),
        want(O::Read, 2 * cells.mtu().min(1024)),
        want(O::Write, 8),
    ];
    let step = match cells.value("state") {
        "waiting" => Step::Post(vec![subject, want(O::Write, 8)], 0, Fault::Stray(stray)),
        "waiting long" => Step::Post(vec![subject, want(O::Write, 8)], 0, Fault::Behind(stray)),
        "within a READ" => Step::Post(vec![subject, fenced], 0, Fault::Within(stray)),
        "between requests" => Step::Post(
            vec![want(O::Send, 8), subject, want(O::Send, 8)],
            1,
            Fault::Behind(stray),
        ),
        _ => Step::Stray(stray),
    };
    let is_idle = matches!(step, Step::Stray(_));
    let times = if cells.value("times") == "twice" { 2 } else { 1 };
    let posted = Step::Post(done.clone(), 0, Fault::None);
    let subject_after = is_idle.then(|| Step::Post(vec![subject], 0, Fault::None));
    let steps = [posted].into_iter().chain(vec![step; times]).chain(subject_after);
    cells.connection(true, (&done, subject), steps.chain(parts::epilogue()))
}
