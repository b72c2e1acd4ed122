//! Rows with a malformed packet: a sound packet that is broken in at most two ways.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_wire::packet::Opcode;

use super::super::malformed::Malformed;
use super::super::step::{Fault, Step, WalkConnection, Way};
use super::parts::{Cells, FIRST_PSN, HISTORY, want};
use crate::cover::{Factor, Family, Partial, Row};

/// The ways in which a packet can be broken.
const BREAKS: [&str; 8] = [
    "opcode",
    "PadCnt",
    "cut",
    "extended headers",
    "lengths",
    "DMALen",
    "VA",
    "TVer",
];

pub(super) static FAMILY: Family = Family {
    name: "malformed",
    factors: &[
        Factor {
            name: "packet",
            values: &[
                "SEND",
                "SEND with Immediate",
                "WRITE",
                "WRITE with Immediate",
                "WRITE First",
                "READ",
                "CmpSwap",
                "FetchAdd",
                "UD SEND",
                "ACK",
                "READ response",
                "ATOMIC response",
            ],
        },
        Factor {
            name: BREAKS[0],
            values: &[
                "its own", "0x15", "0x18", "0x1f", "0x2c", "0x3f", "0x44", "0x55", "0x60", "0x64", "0x80", "0x81",
                "0xaa", "0xff",
            ],
        },
        Factor {
            name: BREAKS[1],
            values: &["right", "1", "3"],
        },
        Factor {
            name: BREAKS[2],
            values: &[
                "nothing",
                "the ICRC",
                "within the BTH",
                "behind the BTH",
                "within the extended headers",
                "the extended headers' last 4 bytes",
                "the last byte",
            ],
        },
        Factor {
            name: BREAKS[3],
            values: &["once", "missing", "twice"],
        },
        Factor {
            name: BREAKS[4],
            values: &[
                "right",
                "UDP 4 more",
                "UDP 4 fewer",
                "UDP of no bytes",
                "UDP of its header",
                "IP 4 more",
                "IP 4 fewer",
            ],
        },
        Factor {
            name: BREAKS[5],
            values: &["right", "0", "a byte more", "2 GiB", "4 GiB less 1"],
        },
        Factor {
            name: BREAKS[6],
            values: &[
                "right",
                "the region's last 4 bytes",
                "behind the region",
                "0",
                "the last 4 addresses",
            ],
        },
        Factor {
            name: BREAKS[7],
            values: &["0", "1", "15"],
        },
        Factor {
            name: "length",
            values: &["8", "0", "1", "P"],
        },
        Factor {
            name: "to",
            values: &["the queue pair", "QP 0", "QP 1", "the multicast QP", "no queue pair"],
        },
        Factor {
            name: "at",
            values: &["the expected PSN", "of the last request", "2 ahead"],
        },
        Factor {
            name: "requester",
            values: &["idle", "waits after a SEND", "waits after a READ"],
        },
        Factor {
            name: HISTORY.name,
            values: &[
                "nothing",
                "RESET",
                "another queue pair failed",
                "another queue pair's request waits for its answer",
            ],
        },
        Factor {
            name: "form",
            values: &["AckReq", "no AckReq", "wrong ICRC", "no receive", "inside a WRITE"],
        },
        FIRST_PSN,
    ],
    refuses,
};

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (packet, length, cut) = (row.value("packet"), row.value("length"), row.value("cut"));
    let is_sound = |name: &&&str| {
        let sound = ["", "its own", "right", "nothing", "once"].contains(&row.value(name));
        sound || **name == "TVer" && row.value(name) == "0"
    };
    if BREAKS.iter().filter(|name| !is_sound(name)).count() > 2 {
        return Some("a packet is broken in at most two ways");
    }
    if packet.is_empty() {
        return None;
    }
    let has_reth = packet.starts_with("WRITE") || packet == "READ";
    let is_atomic = matches!(packet, "CmpSwap" | "FetchAdd");
    let is_response = Malformed::is_response(packet);
    let has_length = !is_atomic && !matches!(packet, "WRITE First" | "ACK" | "ATOMIC response");
    if !has_length && !matches!(length, "" | "8") {
        return Some("the packet has one length");
    }
    if packet == "READ" && row.value("at") == "of the last request" {
        return Some("a responder may execute a duplicate READ without a check of its headers");
    }
    if !has_reth && !matches!(row.value("DMALen"), "" | "right") {
        return Some("the packet has no RETH");
    }
    if !has_reth && !is_atomic && !matches!(row.value("VA"), "" | "right") {
        return Some("the packet has no address");
    }
    let is_of_headers = matches!(
        cut,
        "within the extended headers" | "the extended headers' last 4 bytes"
    );
    let has_other = !matches!(row.value("extended headers"), "" | "once");
    if (is_of_headers || has_other) && !Malformed::has_headers(packet) {
        return Some("the packet has no extended headers");
    }
    if is_of_headers && has_other {
        return Some("the cut counts from the packet's own headers");
    }
    if is_response && !matches!(row.value("at"), "" | "the expected PSN") {
        return Some("a response has the PSN of a request of the DUT");
    }
    let takes_receive = packet.starts_with("SEND") || packet == "WRITE with Immediate";
    match row.value("form") {
        "no receive" if !takes_receive => Some("the packet takes no receive"),
        "inside a WRITE" | "no AckReq" if is_response => Some("the packet is no request"),
        _ => None,
    }
}

/// Returns the broken values of a row as a bit mask. The lowest bit is the second value of the first factor in
/// [`BREAKS`].
pub(super) fn broken(family: &Family, row: &Row) -> u64 {
    let mut bit = 0;
    let mut mask = 0;
    for (factor, value) in family
        .factors
        .iter()
        .zip(row)
        .filter(|(factor, _)| BREAKS.contains(&factor.name))
    {
        if *value > 0 {
            mask |= 1 << (bit + u32::from(*value) - 1);
        }
        bit += factor.values.len() as u32 - 1;
    }
    mask
}

pub(super) fn connection(cells: &Cells<'_>) -> WalkConnection {
    let code = |name: &str| {
        let text = cells.value(name).trim_start_matches("0x");
        u8::from_str_radix(text, 16).ok()
    };
    let malformed = Malformed {
        packet: cells.value("packet"),
        length: match cells.value("length") {
            "P" => 1024,
            some => some.parse().unwrap_or(8),
        },
        opcode: code("opcode").map(Opcode),
        padding: code("PadCnt"),
        cut: cells.value("cut"),
        headers: cells.value("extended headers"),
        lengths: cells.value("lengths"),
        dma_len: cells.value("DMALen"),
        address: cells.value("VA"),
        tver: cells.value("TVer").parse().unwrap_or(0),
        psn: cells.value("at"),
        to: cells.value("to"),
        asks_for_ack: cells.value("form") != "no AckReq" && !Malformed::is_response(cells.value("packet")),
        has_right_icrc: cells.value("form") != "wrong ICRC",
        is_inside: cells.value("form") == "inside a WRITE",
        has_receive: cells.value("form") != "no receive",
    };
    let sound = want(O::Write, 8);
    let waits = match cells.value("requester") {
        "waits after a SEND" => Some(want(O::Send, 8)),
        "waits after a READ" => Some(want(O::Read, 8)),
        _ => None,
    };
    let waits = waits.map(|want| Step::Begin(vec![want], Fault::Silent(1)));
    let steps = [
        Step::Ask(vec![sound], Way::Sound),
        Step::Post(vec![want(O::Send, 8)], 0, Fault::None),
    ];
    let steps = steps.into_iter().chain(waits).chain([Step::Malformed(malformed)]);
    cells.connection(false, (&[sound], want(O::Send, 8)), steps)
}

/// Returns the connection that shows that the device still works.
pub(super) fn afterwards(cells: &Cells<'_>) -> WalkConnection {
    cells.connection(false, (&[], want(O::Send, 8)), super::parts::epilogue())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_breaks_rows_and_no_row_has_three() {
        let rows = FAMILY.array(2).rows;
        let all = rows.iter().map(|row| broken(&FAMILY, row));
        assert!(all.clone().all(|mask| mask.count_ones() <= 2));
        let values: usize = FAMILY
            .factors
            .iter()
            .filter(|factor| BREAKS.contains(&factor.name))
            .map(|of| of.values.len() - 1)
            .sum();
        assert_eq!(all.fold(0, |all, mask| all | mask), (1 << values) - 1);
    }
}
