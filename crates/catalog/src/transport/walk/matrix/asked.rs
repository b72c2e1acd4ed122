//! Rows with the DUT as responder: the peer's messages, their disturbances and duplicates.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_tester::peer::ChannelOptions;

use super::super::step::{Step, WalkConnection, Want, Way};
use super::parts::{self, ADDRESS, BEFORE_TARGET, Cells, FIRST_PSN, HISTORY, LENGTH, PATH_MTU, want};
use crate::cover::{Factor, Family, Partial};

pub(super) static FAMILY: Family = Family {
    name: "asked",
    factors: &[
        Factor {
            name: "operation",
            values: &[
                "SEND",
                "SEND with Immediate",
                "WRITE",
                "WRITE with Immediate",
                "READ",
                "CmpSwap",
                "FetchAdd",
            ],
        },
        PATH_MTU,
        LENGTH,
        Factor {
            name: ADDRESS.name,
            values: &[
                "aligned",
                "odd",
                "ends a page",
                "crosses a page",
                "first byte of the region",
                "last byte of the region",
            ],
        },
        FIRST_PSN,
        HISTORY,
        Factor {
            name: "company",
            values: &[
                "alone",
                "behind a SEND",
                "before a WRITE",
                "behind a READ",
                "between WRITEs",
                "three alike",
            ],
        },
        Factor {
            name: "disturbance",
            values: &[
                "none",
                "first packet lost",
                "middle packet lost",
                "last packet lost",
                "first packet damaged",
                "last packet damaged",
                "a packet overtakes",
                "responses lost",
                "receive missing",
                "receive missing twice",
                "receive missing, a duplicate meanwhile",
            ],
        },
        Factor {
            name: "duplicate",
            values: &[
                "none",
                "at once",
                "twice",
                "after another message",
                "without its first packet",
            ],
        },
        parts::VALUE,
        parts::ADDRESS_VECTOR,
        Factor {
            name: "READs kept",
            values: &["4", "1", "16"],
        },
        parts::SOLICITED,
        parts::STATE,
        Factor {
            name: "R_Key of 0 bytes",
            values: &["right", "any"],
        },
    ],
    refuses,
};

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (operation, length, address) = (row.value("operation"), row.value("length"), row.value("address"));
    if operation.starts_with("SEND") && !matches!(address, "" | "aligned") {
        return Some("a SEND has no address");
    }
    if !parts::may_take_receive(operation) && row.value("disturbance").starts_with("receive") {
        return Some("the operation takes no receive");
    }
    let is_read = matches!(operation, "" | "READ");
    if address == "first byte of the region" && !is_read {
        return Some("the DUT's own messages lie there");
    }
    if row.value("R_Key of 0 bytes") == "any" {
        let has_key = matches!(operation, "" | "WRITE" | "WRITE with Immediate" | "READ");
        if !has_key || !matches!(length, "" | "0") {
            return Some("only an RETH of 0 bytes has an R_Key that is not checked");
        }
    }
    parts::refuses_state(row)
        .or_else(|| parts::refuses_message(row))
        .or_else(|| parts::refuses_address(row))
}

pub(super) fn connection(cells: &Cells<'_>) -> WalkConnection {
    let mut subject = Want {
        solicited: cells.value(parts::SOLICITED.name) == "yes",
        ..cells.message()
    };
    match cells.value("address") {
        "first byte of the region" => subject.place = 0u32.wrapping_sub(BEFORE_TARGET),
        "last byte of the region" => subject.place = ChannelOptions::MEMORY - BEFORE_TARGET - subject.length,
        _ => {}
    }
    let (before, after) = parts::company(cells.value("company"), subject);
    let frames = |wants: &[Want]| -> u32 { wants.iter().map(|want| packets(want, cells.mtu())).sum() };
    let (first, count) = (frames(&before), packets(&subject, cells.mtu()));
    let way = match cells.value("disturbance") {
        "first packet lost" => Way::Lost(first),
        "middle packet lost" => Way::Lost(first + count / 2),
        "last packet lost" => Way::Lost(first + count - 1),
        "first packet damaged" => Way::Damaged(first),
        "last packet damaged" => Way::Damaged(first + count - 1),
        "a packet overtakes" => Way::Overtakes((first + count).saturating_sub(2)),
        "responses lost" => Way::AnswersLost,
        "receive missing" => Way::Unready,
        "receive missing twice" => Way::UnreadyTwice,
        "receive missing, a duplicate meanwhile" => Way::UnreadyAmid,
        _ => Way::Sound,
    };
    let again = Step::Again(after.len() as u32);
    let duplicates = match cells.value("duplicate") {
        "at once" => vec![again],
        "without its first packet" => vec![Step::Tail(after.len() as u32)],
        "twice" => vec![again.clone(), again],
        "after another message" => vec![
            Step::Ask(vec![want(O::Write, 8)], Way::Sound),
            Step::Again(after.len() as u32 + 1),
        ],
        _ => vec![],
    };
    let all = before.iter().copied().chain([subject]).chain(after).collect();
    let steps = [Step::Ask(all, way)].into_iter().chain(duplicates);
    let mut connection = cells.connection(false, (&before, subject), steps.chain(parts::epilogue()));
    connection.options.to_rts = cells.value(parts::STATE.name) == "RTS";
    connection.options.max_dest_rd_atomic = cells.value("READs kept").parse().unwrap_or(4);
    connection.any_key = cells.value("R_Key of 0 bytes") == "any";
    connection
}

/// Returns the number of packets of a request.
fn packets(want: &Want, mtu: u32) -> u32 {
    match want.operation {
        O::Read | O::CompareSwap | O::FetchAdd => 1,
        _ => want.length.div_ceil(mtu).max(1),
    }
}
