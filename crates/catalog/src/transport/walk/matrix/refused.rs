//! Rows with a request of the peer that the DUT must refuse.

use verbatim_record::verbs::pb::Operation as O;

use super::super::step::{Fault, Illegal, Step, WalkConnection, Way};
use super::parts::{self, Cells, FIRST_PSN, HISTORY, PATH_MTU, want};
use crate::cover::{Factor, Family, Partial};

pub(super) static FAMILY: Family = Family {
    name: "refused",
    factors: &[
        Factor {
            name: "error",
            values: &[
                "R_Key, lowest bit",
                "R_Key, middle bit",
                "R_Key, highest bit",
                "a byte beyond the region",
                "a byte before the region",
                "address beyond the wrap",
                "address, bit 32",
                "address, bit 63",
                "no right of the region",
                "no right of the queue pair",
                "a byte longer than the path MTU",
                "8 bytes longer than the path MTU",
                "address of an atomic + 1",
                "address of an atomic + 4",
                "Middle without First",
                "First a byte short",
                "DMALen a byte long",
                "a byte longer than the receive",
            ],
        },
        Factor {
            name: "operation",
            values: &["WRITE", "WRITE with Immediate", "READ", "CmpSwap", "FetchAdd", "SEND"],
        },
        PATH_MTU,
        FIRST_PSN,
        HISTORY,
        Factor {
            name: "behind",
            values: &[
                "nothing",
                "a SEND",
                "a WRITE of 3 packets",
                "a READ of 3 packets",
                "an atomic",
                "the DUT's SEND",
            ],
        },
        parts::STATE,
    ],
    refuses,
};

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (error, operation) = (row.value("error"), row.value("operation"));
    let of = |operations: &[&str]| operation.is_empty() || operations.contains(&operation);
    let needs: &[&str] = match error {
        "" => return refuses_rtr(row),
        "address beyond the wrap" => &["WRITE", "READ"],
        "no right of the region" | "no right of the queue pair" => {
            &["WRITE", "WRITE with Immediate", "READ", "CmpSwap", "FetchAdd"]
        }
        "a byte longer than the path MTU" | "8 bytes longer than the path MTU" => &["WRITE", "SEND"],
        "address of an atomic + 1" | "address of an atomic + 4" => &["FetchAdd"],
        "Middle without First" | "First a byte short" | "DMALen a byte long" => &["WRITE"],
        "a byte longer than the receive" => &["SEND"],
        _ => &["WRITE", "READ", "CmpSwap", "FetchAdd"],
    };
    if !of(needs) {
        return Some("the operation cannot have this error");
    }
    let is_right = error.starts_with("no right");
    let needs_right = matches!(
        row.value("behind"),
        "a WRITE of 3 packets" | "a READ of 3 packets" | "an atomic"
    ) || matches!(
        row.value(HISTORY.name),
        "a time-out" | "RESET" | "20 messages" | "strays" | "READs both ways" | "READs and atomics both ways"
    );
    if is_right && needs_right {
        return Some("the messages before need rights");
    }
    refuses_rtr(row)
}

fn refuses_rtr(row: &Partial<'_>) -> Option<&'static str> {
    if row.value(parts::STATE.name) == "RTR" && row.value("behind") == "the DUT's SEND" {
        return Some("the DUT sends only in RTS");
    }
    parts::refuses_state(row)
}

pub(super) fn connection(cells: &Cells<'_>) -> WalkConnection {
    let operation = parts::operation(cells.value("operation"));
    let long = 2 * cells.mtu().min(1024) + 8;
    let before = match cells.value("behind") {
        "a SEND" => vec![want(O::Send, 8)],
        "a WRITE of 3 packets" => vec![want(O::Write, long)],
        "a READ of 3 packets" => vec![want(O::Read, long)],
        "an atomic" => vec![want(O::FetchAdd, 8)],
        _ => vec![],
    };
    let illegal = match cells.value("error") {
        "R_Key, lowest bit" => Illegal::RKey(operation, 0),
        "R_Key, middle bit" => Illegal::RKey(operation, 13),
        "R_Key, highest bit" => Illegal::RKey(operation, 31),
        "a byte beyond the region" => Illegal::Beyond(operation),
        "a byte before the region" => Illegal::Before(operation),
        "address beyond the wrap" => Illegal::Around(operation),
        "address, bit 32" => Illegal::Address(operation, 32),
        "address, bit 63" => Illegal::Address(operation, 63),
        "a byte longer than the path MTU" => Illegal::TooLong(operation, 1),
        "8 bytes longer than the path MTU" => Illegal::TooLong(operation, 8),
        "address of an atomic + 1" => Illegal::Unaligned(1),
        "address of an atomic + 4" => Illegal::Unaligned(4),
        "Middle without First" => Illegal::NoFirst,
        "First a byte short" => Illegal::ShortFirst(1),
        "DMALen a byte long" => Illegal::DmaLen,
        "a byte longer than the receive" => Illegal::Overlong(1),
        _ => Illegal::Right(operation),
    };
    let ask = (!before.is_empty()).then(|| Step::Ask(before.clone(), Way::Sound));
    let post = (cells.value("behind") == "the DUT's SEND").then(|| Step::Post(vec![want(O::Send, 8)], 0, Fault::None));
    let steps = ask.into_iter().chain(post).chain([Step::Illegal(illegal)]);
    let mut connection = cells.connection(false, (&before, want(O::Send, 8)), steps);
    connection.options.to_rts = cells.value(parts::STATE.name) == "RTS";
    let rights = match cells.value("error") {
        "no right of the region" => Some(&mut connection.options.memory_access),
        "no right of the queue pair" => Some(&mut connection.options.qp_access),
        _ => None,
    };
    if let Some(rights) = rights {
        match operation {
            O::Read => rights.remote_read = false,
            O::CompareSwap | O::FetchAdd => rights.remote_atomic = false,
            _ => rights.remote_write = false,
        }
    }
    connection
}
