//! Rows with messages of each length, receives that fit or do not fit, and path MTUs that differ.

use verbatim_wire::Mtu;

use super::super::parts::{self, Cells};
use super::scene::{ROLE, Scene, post};
use crate::cover::{Factor, Family, Partial};

pub(in super::super) static FAMILY: Family = Family {
    name: "pair-length",
    factors: &[
        ROLE,
        Factor {
            name: "operation",
            values: &["SEND", "SEND with Immediate", "WRITE", "WRITE with Immediate", "READ"],
        },
        Factor {
            name: "length",
            values: &["8", "0", "1", "2", "3", "P-1", "P", "P+1", "2P", "3P+2"],
        },
        Factor {
            name: "path MTU",
            values: &["256", "512", "1024"],
        },
        Factor {
            name: "path MTU of the other end",
            values: &["the same", "half", "twice"],
        },
        Factor {
            name: "receive",
            values: &["as long", "longer", "a byte short", "half", "not writable"],
        },
        Factor {
            name: "value",
            values: &["any", "0", "all ones"],
        },
        Factor {
            name: "solicited event",
            values: &["no", "yes"],
        },
        Factor {
            name: "company",
            values: &["alone", "three alike"],
        },
    ],
    refuses,
};

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (operation, length, receive) = (row.value("operation"), row.value("length"), row.value("receive"));
    let is_wrong = matches!(receive, "a byte short" | "half" | "not writable");
    if !matches!(operation, "" | "SEND" | "SEND with Immediate") && (is_wrong || receive == "longer") {
        return Some("only a SEND fills a receive");
    }
    if length == "0" && is_wrong {
        return Some("a SEND of no bytes fits each receive");
    }
    let differs = matches!(row.value("path MTU of the other end"), "half" | "twice");
    if differs && is_wrong {
        return Some("two errors at once");
    }
    if differs && operation == "READ" && matches!(length, "P-1" | "P" | "P+1" | "2P" | "3P+2") {
        return Some("the responses may have several outcomes");
    }
    if matches!(operation, "SEND" | "WRITE" | "READ") && matches!(row.value("value"), "0" | "all ones") {
        return Some("the operation carries no value of its own");
    }
    None
}

pub(in super::super) fn scene(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    let (code, mtu) = match cells.value("path MTU") {
        "512" => (2, 512),
        "1024" => (3, 1024),
        _ => (1, 256),
    };
    scene.asks.mtu = Mtu(code);
    scene.answers.mtu = match cells.value("path MTU of the other end") {
        "half" => Mtu((code - 1).max(1)),
        "twice" => Mtu(code + 1),
        _ => Mtu(code),
    };
    let length = match cells.value("length") {
        "P-1" => mtu - 1,
        "P" => mtu,
        "P+1" => mtu + 1,
        "2P" => 2 * mtu,
        "3P+2" => 3 * mtu + 2,
        some => some.parse().unwrap_or(8),
    };
    let mut subject = post(parts::operation(cells.value("operation")), length);
    subject.solicited = cells.value("solicited event") == "yes" && super::scene::takes_receive(subject.operation);
    subject.value = match cells.value("value") {
        "0" => 0,
        "all ones" => u64::MAX,
        _ => 0xC0DE_8001,
    };
    let count = if cells.value("company") == "three alike" { 3 } else { 1 };
    scene.posts = vec![subject; count];
    let room = match cells.value("receive") {
        "longer" => length + 64,
        "a byte short" => length - 1,
        "half" => length / 2,
        _ => length,
    };
    scene.closed_receives = cells.value("receive") == "not writable";
    let mut scene = scene.with_fitting_receives();
    let receives = scene.receives.len();
    scene.receives = vec![room; receives];
    scene
}
