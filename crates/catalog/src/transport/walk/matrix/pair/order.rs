//! Rows with several requests: completions in order, requests that are not signaled, fences, and flushed requests.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_wire::packet::RnrTimer;

use super::super::parts::{self, Cells};
use super::scene::{Post, ROLE, Scene, Wrong, post};
use crate::cover::{Factor, Family, Partial};

const OPERATIONS: &[&str] = &["SEND", "WRITE", "WRITE with Immediate", "READ", "FetchAdd"];

pub(in super::super) static FAMILY: Family = Family {
    name: "pair-order",
    factors: &[
        ROLE,
        Factor {
            name: "first",
            values: OPERATIONS,
        },
        Factor {
            name: "second",
            values: OPERATIONS,
        },
        Factor {
            name: "third",
            values: &["SEND", "WRITE", "READ", "fenced SEND of the data of the first"],
        },
        Factor {
            name: "signaled",
            values: &["all", "the last", "the first and the last"],
        },
        Factor {
            name: "READs in flight",
            values: &["4", "1"],
        },
        Factor {
            name: "ends",
            values: &[
                "well",
                "with a wrong R_Key",
                "with a wrong R_Key in the middle",
                "without a receive",
            ],
        },
        Factor {
            name: "rounds",
            values: &["1", "3"],
        },
    ],
    refuses: |row: &Partial<'_>| {
        let is_fenced = row.value("third").starts_with("fenced");
        let has_data = matches!(row.value("first"), "" | "READ" | "FetchAdd");
        (is_fenced && !has_data).then_some("only a READ or an atomic returns data")
    },
};

pub(in super::super) fn scene(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    scene.asks.max_rd_atomic = cells.value("READs in flight").parse().unwrap_or(4);
    let of = |name: &str| {
        let operation = parts::operation(name);
        post(operation, if super::scene::is_atomic(operation) { 8 } else { 300 })
    };
    let rounds: usize = cells.value("rounds").parse().unwrap_or(1);
    for round in 0..rounds {
        let first = of(cells.value("first"));
        let third = match cells.value("third") {
            "fenced SEND of the data of the first" => Post {
                fence: true,
                same_local_as: Some(3 * round),
                ..post(O::Send, first.length)
            },
            name => of(name),
        };
        scene.posts.extend([first, of(cells.value("second")), third]);
    }
    let wrong = Post {
        wrong: Wrong::RKey(8),
        ..post(O::Write, 8)
    };
    let ends = cells.value("ends");
    match ends {
        "with a wrong R_Key" => scene.posts.push(wrong),
        "with a wrong R_Key in the middle" => scene.posts.insert(3 * rounds, wrong),
        "without a receive" => scene.posts.push(post(O::Send, 8)),
        _ => {}
    }
    if ends == "with a wrong R_Key in the middle" {
        scene
            .posts
            .extend([post(O::Send, 8), post(O::Read, 8), post(O::Write, 8)]);
    }
    let last = scene.posts.len() - 1;
    for (at, post) in scene.posts.iter_mut().enumerate() {
        post.signaled = match cells.value("signaled") {
            "the last" => at == last,
            "the first and the last" => at == 0 || at == last,
            _ => true,
        };
    }
    let mut scene = scene.with_fitting_receives();
    if ends == "without a receive" {
        scene.receives.pop();
        scene.asks.rnr_retry = 1;
        scene.answers.min_rnr_timer = RnrTimer(8);
    }
    scene
}
