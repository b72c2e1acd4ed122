//! Rows with atomics: operands at the boundaries of their bits, alone and in chains on one place.

use verbatim_record::verbs::pb::Operation as O;

use super::super::parts::Cells;
use super::scene::{Post, ROLE, Scene, post};
use crate::cover::{Factor, Family, Partial};

const NUMBERS: &[&str] = &["any", "0", "1", "2^32 - 1", "2^32", "2^63", "all ones"];

pub(in super::super) static FAMILY: Family = Family {
    name: "pair-atomics",
    factors: &[
        ROLE,
        Factor {
            name: "operation",
            values: &["FetchAdd", "CmpSwap"],
        },
        Factor {
            name: "present value",
            values: NUMBERS,
        },
        Factor {
            name: "operand",
            values: NUMBERS,
        },
        Factor {
            name: "compare with",
            values: &["the present value", "another low half", "another high half", "0"],
        },
        Factor {
            name: "company",
            values: &[
                "alone",
                "three on one place",
                "a WRITE before",
                "a READ behind",
                "both operations on one place",
            ],
        },
        Factor {
            name: "in flight",
            values: &["4", "1"],
        },
    ],
    refuses: |row: &Partial<'_>| {
        let compares = !matches!(row.value("compare with"), "" | "the present value");
        (row.value("operation") == "FetchAdd" && compares).then_some("FetchAdd compares nothing")
    },
};

fn number(words: &str) -> u64 {
    match words {
        "0" => 0,
        "1" => 1,
        "2^32 - 1" => 0xFFFF_FFFF,
        "2^32" => 1 << 32,
        "2^63" => 1 << 63,
        "all ones" => u64::MAX,
        _ => 0x1122_3344_DDEE_FF99,
    }
}

pub(in super::super) fn scene(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    let initial = number(cells.value("present value"));
    scene.initial = Some(initial);
    scene.asks.max_rd_atomic = cells.value("in flight").parse().unwrap_or(4);
    let operation = match cells.value("operation") {
        "CmpSwap" => O::CompareSwap,
        _ => O::FetchAdd,
    };
    let subject = Post {
        value: number(cells.value("operand")),
        compare: Some(match cells.value("compare with") {
            "another low half" => initial ^ 0x100,
            "another high half" => initial ^ 0x100 << 32,
            "0" => 0,
            _ => initial,
        }),
        ..post(operation, 8)
    };
    let on = |post: Post| Post {
        same_remote_as: Some(0),
        ..post
    };
    let other = match operation {
        O::FetchAdd => O::CompareSwap,
        _ => O::FetchAdd,
    };
    scene.posts = match cells.value("company") {
        "three on one place" => vec![subject, on(subject), on(subject)],
        "a WRITE before" => vec![post(O::Write, 8), on(subject)],
        "a READ behind" => vec![subject, on(post(O::Read, 8))],
        "both operations on one place" => {
            let value = subject.value;
            let other = Post {
                operation: other,
                value,
                ..subject
            };
            vec![subject, on(other), on(subject)]
        }
        _ => vec![subject],
    };
    scene
}
