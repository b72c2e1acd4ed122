//! Rows with requests that the rights, regions or addresses of an end do not allow.

use verbatim_record::verbs::pb::Operation as O;

use super::super::parts::{self, Cells};
use super::scene::{ROLE, Scene, Wrong, post};
use crate::cover::{Factor, Family, Partial};

pub(in super::super) static FAMILY: Family = Family {
    name: "pair-access",
    factors: &[
        ROLE,
        Factor {
            name: "error",
            values: &[
                "none",
                "R_Key, lowest bit",
                "R_Key, middle bit",
                "R_Key, highest bit",
                "a byte beyond the region",
                "a byte before the region",
                "no right of the region",
                "no right of the queue pair",
                "region deregistered",
                "address of an atomic + 1",
                "address of an atomic + 4",
                "wrong R_Key and no bytes",
                "local memory not writable",
            ],
        },
        Factor {
            name: "operation",
            values: &["WRITE", "WRITE with Immediate", "READ", "CmpSwap", "FetchAdd"],
        },
        Factor {
            name: "length",
            values: &["8", "1", "256", "600"],
        },
        Factor {
            name: "behind",
            values: &["nothing", "a SEND", "two SENDs"],
        },
        Factor {
            name: "before",
            values: &["nothing", "a WRITE", "a SEND and a READ"],
        },
    ],
    refuses,
};

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (error, operation) = (row.value("error"), row.value("operation"));
    let is_atomic = matches!(operation, "CmpSwap" | "FetchAdd");
    if is_atomic && !matches!(row.value("length"), "" | "8") {
        return Some("an atomic has 8 bytes");
    }
    let is_known = !operation.is_empty();
    if error == "region deregistered" && matches!(row.value("behind"), "a SEND" | "two SENDs") {
        return Some("the receives lie in the region");
    }
    match error {
        "address of an atomic + 1" | "address of an atomic + 4" if is_known && !is_atomic => Some("not an atomic"),
        "wrong R_Key and no bytes" if is_atomic => Some("an atomic has 8 bytes"),
        "local memory not writable" if is_known && !is_atomic && operation != "READ" => {
            Some("the requester only reads the local memory")
        }
        _ => None,
    }
}

pub(in super::super) fn scene(cells: &Cells<'_>) -> Scene {
    let mut scene = Scene::new(cells);
    let operation = parts::operation(cells.value("operation"));
    let mut subject = post(operation, cells.value("length").parse().unwrap_or(8));
    let error = cells.value("error");
    subject.wrong = match error {
        "R_Key, lowest bit" => Wrong::RKey(0),
        "R_Key, middle bit" => Wrong::RKey(13),
        "R_Key, highest bit" => Wrong::RKey(31),
        "wrong R_Key and no bytes" => Wrong::RKey(9),
        // The address of an atomic stays a multiple of 8.
        "a byte beyond the region" => Wrong::Beyond(if super::scene::is_atomic(operation) { 8 } else { 1 }),
        "a byte before the region" => Wrong::Before(if super::scene::is_atomic(operation) { 8 } else { 1 }),
        "address of an atomic + 1" => Wrong::Shifted(1),
        "address of an atomic + 4" => Wrong::Shifted(4),
        "local memory not writable" => Wrong::ClosedLocal,
        _ => Wrong::None,
    };
    if error == "wrong R_Key and no bytes" {
        subject.length = 0;
    }
    scene.deregistered = error == "region deregistered";
    let rights = match error {
        "no right of the region" => Some(&mut scene.answers.memory_access),
        "no right of the queue pair" => Some(&mut scene.answers.qp_access),
        _ => None,
    };
    if let Some(rights) = rights {
        match operation {
            O::Read => rights.remote_read = false,
            O::CompareSwap | O::FetchAdd => rights.remote_atomic = false,
            _ => rights.remote_write = false,
        }
    }
    let behind = match cells.value("behind") {
        "a SEND" => 1,
        "two SENDs" => 2,
        _ => 0,
    };
    scene.posts = vec![post(O::Send, 300); behind];
    scene.posts.push(subject);
    match cells.value("before") {
        "a WRITE" => scene.posts.push(post(O::Write, 8)),
        "a SEND and a READ" => scene.posts.extend([post(O::Send, 8), post(O::Read, 8)]),
        _ => {}
    }
    let mut scene = scene.with_fitting_receives();
    if scene.deregistered {
        scene.receives.clear();
    }
    scene
}
