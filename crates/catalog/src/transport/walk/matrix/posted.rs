//! Rows with the DUT as requester: its requests, and the peer's treatment of them.

use verbatim_wire::packet::{AckTimeout, NakCode, RnrTimer};

use super::super::step::{Alteration, Fault, Step, WalkConnection, Want};
use super::parts::{self, ADDRESS, Cells, FIRST_PSN, HISTORY, LENGTH, PATH_MTU, position};
use crate::cover::{Factor, Family, Partial};

pub(super) static FAMILY: Family = Family {
    name: "posted",
    factors: &[
        Factor {
            name: "operation",
            values: &[
                "SEND",
                "SEND with Immediate",
                "SEND with Invalidate",
                "WRITE",
                "WRITE with Immediate",
                "READ",
                "CmpSwap",
                "FetchAdd",
            ],
        },
        PATH_MTU,
        LENGTH,
        ADDRESS,
        FIRST_PSN,
        HISTORY,
        Factor {
            name: "company",
            values: &[
                "alone",
                "behind a SEND",
                "before a WRITE",
                "behind a READ",
                "between SENDs",
                "three alike",
                "before a fenced SEND",
            ],
        },
        Factor {
            name: "peer",
            values: &[
                "answers",
                "loses the first packet",
                "loses the middle packet",
                "loses the last packet",
                "loses the answer",
                "loses the first READ response",
                "loses the middle READ response",
                "loses the last READ response",
                "sends RNR NAK 1",
                "sends RNR NAK 12 twice",
                "sends RNR NAK 20 to any request",
                "sends a sequence NAK of the first packet",
                "sends a sequence NAK of the middle packet",
                "sends a sequence NAK of the last packet",
                "answers twice",
                "answers with a wrong ICRC first",
                "answers with TVer 5 first",
                "answers with another P_Key first",
                "answers with another service first",
                "answers from elsewhere first",
                "answers all with one ACK",
                "answers each packet",
                "is silent once",
                "is silent twice",
                "refuses: invalid request",
                "refuses: remote access",
                "refuses: remote operational",
                "is silent for ever",
                "sends RNR NAKs for ever",
                "sends an RNR NAK, then is silent for ever",
                "sends a sequence NAK, then is silent for ever",
            ],
        },
        parts::VALUE,
        parts::ADDRESS_VECTOR,
        Factor {
            name: "ACK timeout",
            values: &["on", "off"],
        },
        Factor {
            name: "fence",
            values: &["no", "yes"],
        },
        parts::SOLICITED,
        Factor {
            name: "READs in flight",
            values: &["4", "1"],
        },
        Factor {
            name: "retries",
            values: &["7", "1"],
        },
    ],
    refuses,
};

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (operation, length, peer) = (row.value("operation"), row.value("length"), row.value("peer"));
    let is_known = !operation.is_empty();
    let address = row.value(ADDRESS.name);
    if is_known && operation != "READ" && peer.contains("READ response") {
        return Some("only a READ has READ responses");
    }
    let is_short = matches!(length, "8" | "0" | "1" | "2" | "3" | "P-1" | "P");
    let names_position = peer.contains("middle") || peer.contains("last packet") || peer.contains("last READ");
    if is_short && names_position {
        return Some("a message of one packet has no middle or last packet");
    }
    if operation == "READ" && peer.contains("packet") && names_position {
        return Some("a READ request is one packet");
    }
    if !parts::may_take_receive(operation)
        && matches!(
            peer,
            "sends RNR NAK 1"
                | "sends RNR NAK 12 twice"
                | "sends RNR NAKs for ever"
                | "sends an RNR NAK, then is silent for ever"
        )
    {
        return Some("the operation takes no receive");
    }
    if row.value("retries") == "1" && matches!(peer, "is silent twice" | "sends RNR NAK 12 twice") {
        return Some("one retry is not enough");
    }
    if row.value("retries") == "7" && peer.ends_with("for ever") {
        return Some("one retry ends sooner, and shows the same");
    }
    let needs_timeout = peer.contains("silent") || peer.starts_with("loses") || row.value(HISTORY.name) == "a time-out";
    if row.value("ACK timeout") == "off" && needs_timeout {
        return Some("without the ACK timeout nothing is retried");
    }
    let has_result = operation == "READ" || parts::is_atomic(operation);
    if has_result && !matches!(address, "" | "aligned") {
        return Some("results go to slots of the tests");
    }
    parts::refuses_message(row).or_else(|| parts::refuses_address(row))
}

pub(super) fn connection(cells: &Cells<'_>) -> WalkConnection {
    let subject = Want {
        fence: cells.value("fence") == "yes",
        solicited: cells.value(parts::SOLICITED.name) == "yes",
        ..cells.message()
    };
    let (before, after) = parts::company(cells.value("company"), subject);
    let count = subject.length.div_ceil(cells.mtu()).max(1);
    let peer = cells.value("peer");
    let at = before.len();
    let all: Vec<Want> = before.iter().copied().chain([subject]).chain(after).collect();
    let step = match refusal(peer) {
        Some(code) => Step::Refuse(all, at, code),
        None => Step::Post(all, at, fault(peer, count)),
    };
    let mut connection = cells.connection(true, (&before, subject), [step].into_iter().chain(parts::epilogue()));
    connection.options.max_rd_atomic = cells.value("READs in flight").parse().unwrap_or(4);
    if cells.value("ACK timeout") == "off" {
        connection.options.timeout = AckTimeout::OFF;
    }
    connection
}

fn refusal(peer: &str) -> Option<NakCode> {
    match peer.strip_prefix("refuses: ")? {
        "invalid request" => Some(NakCode::INVALID_REQUEST),
        "remote access" => Some(NakCode::REMOTE_ACCESS),
        _ => Some(NakCode::REMOTE_OPERATIONAL),
    }
}

/// Returns the fault of the peer. The message has `count` packets, or READ responses.
fn fault(peer: &str, count: u32) -> Fault {
    let of = |words: &str| position(words.split(' ').next().unwrap_or_default(), count);
    if let Some(words) = peer.strip_prefix("loses the ") {
        return match words {
            "answer" => Fault::AnswerLost,
            _ if words.ends_with("READ response") => Fault::ResponseLost(of(words)),
            _ => Fault::RequestLost(of(words)),
        };
    }
    if let Some(words) = peer.strip_prefix("sends a sequence NAK of the ") {
        return Fault::SequenceNak(of(words));
    }
    match peer {
        "sends RNR NAK 1" => Fault::Rnr(RnrTimer(1), 1),
        "sends RNR NAK 12 twice" => Fault::Rnr(RnrTimer(12), 2),
        "sends RNR NAK 20 to any request" => Fault::Unready(RnrTimer(20)),
        "sends RNR NAKs for ever" => Fault::Rnr(RnrTimer(8), 2),
        "sends an RNR NAK, then is silent for ever" => Fault::RnrThenSilent(RnrTimer(8), 3),
        "sends a sequence NAK, then is silent for ever" => Fault::NakThenSilent(2),
        "answers twice" => Fault::AnswerTwice,
        "answers with a wrong ICRC first" => Fault::AnswerDamaged,
        "answers with TVer 5 first" => Fault::Altered(Alteration::TVer(5)),
        "answers with another P_Key first" => Fault::Altered(Alteration::PKey(3)),
        "answers with another service first" => Fault::Altered(Alteration::OtherService),
        "answers from elsewhere first" => Fault::Altered(Alteration::OtherSource),
        "answers all with one ACK" => Fault::Coalesced,
        "answers each packet" => Fault::Each,
        "is silent once" => Fault::Silent(1),
        "is silent twice" | "is silent for ever" => Fault::Silent(2),
        _ => Fault::None,
    }
}
