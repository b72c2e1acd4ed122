//! Rows in which the responder expects another PSN than the requester's first one, and rows in which the PSN wraps.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, Psn};

use super::super::parts::{self, Cells};
use super::scene::{ROLE, Scene, post};
use crate::cover::{Factor, Family, Partial};
use crate::transport::rc;

pub(in super::super) static FAMILY: Family = Family {
    name: "pair-sequence",
    factors: &[
        ROLE,
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
        Factor {
            name: "length",
            values: &["8", "256", "770"],
        },
        Factor {
            name: "expected PSN",
            values: &[
                "the first",
                "1 before the first",
                "1000 before the first",
                "2^22 before the first",
                "behind the first message",
                "behind the second message",
            ],
        },
        Factor {
            name: "PSN",
            values: &["any", "wraps within", "wraps behind", "zero", "half of all within"],
        },
        Factor {
            name: "retry_cnt",
            values: &["2", "0", "7"],
        },
    ],
    refuses: |row: &Partial<'_>| {
        let operation = row.value("operation");
        let is_atomic = matches!(operation, "CmpSwap" | "FetchAdd");
        (is_atomic && matches!(row.value("length"), "256" | "770")).then_some("an atomic has 8 bytes")
    },
};

pub(in super::super) fn scene(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    let operation = parts::operation(cells.value("operation"));
    let length = cells.value("length").parse().unwrap_or(8);
    scene.asks.timeout = AckTimeout(14);
    scene.asks.retry_cnt = cells.value("retry_cnt").parse().unwrap_or(2);
    scene.posts = vec![post(operation, length); 3];
    scene.posts.push(post(O::Write, 8));
    let mtu = Mtu(scene.asks.mtu.0).bytes().unwrap_or(256);
    let count = rc::psns(operation, length, mtu);
    let within = |top: u32| Psn::new(top - (count / 2).max(1) + 1);
    let first = match cells.value("PSN") {
        "wraps within" => within(0x00FF_FFFF),
        "wraps behind" => Psn::new(0x00FF_FFFF - count + 1),
        "zero" => Psn(0),
        "half of all within" => within(0x007F_FFFF),
        _ => Psn::new(cells.number as u32 * 0x0001_2345),
    };
    let expected = match cells.value("expected PSN") {
        "1 before the first" => first.minus(1),
        "1000 before the first" => first.minus(1000),
        "2^22 before the first" => first.minus(1 << 22),
        "behind the first message" => first.plus(count),
        "behind the second message" => first.plus(2 * count),
        _ => first,
    };
    (scene.asks.psn, scene.answers.own_psn) = (Some(first), Some(expected));
    scene.with_fitting_receives()
}
