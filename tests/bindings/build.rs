//! Writes the comparison with rdma-sys: an assertion for each type, field and constant that it takes from the header.

use std::{env, fmt::Write, fs, path::Path};

#[path = "declared.rs"]
#[expect(dead_code, reason = "what is declared for umad, the tests alone compare")]
mod declared;

/// Types that rdma-sys writes by hand, and so says nothing about the header with: the C compiler is asked for these.
const BY_HAND: [&str; 8] = [
    "ibv_ah_attr",
    "ibv_async_event",
    "ibv_gid",
    "ibv_global_route",
    "ibv_mw_bind_info",
    "ibv_ops_wr",
    "ibv_send_wr",
    "ibv_wc",
];
/// Enumerations that rdma-sys has as newtypes; the others are modules of constants.
const NEWTYPES: [&str; 4] = ["ibv_wc_flags", "ibv_access_flags", "ibv_send_flags", "ibv_qp_attr_mask"];

fn main() {
    println!("cargo::rerun-if-changed=../../crates/hw/src/verbs/generated.rs");
    println!("cargo::rerun-if-changed=declared.rs");
    let declared = declared::verbs();
    let ours = |name: &str| name.starts_with("ibv_") && !name.contains("__bindgen") && !BY_HAND.contains(&name);
    let mut code = String::from("fn compare(differ: &mut impl FnMut(&str, i64, i64)) {\n");
    let mut compare = |what: String, expected: i64, seen: String| {
        writeln!(code, "    differ({what:?}, {expected}, {seen} as i64);").expect("a string grows");
    };
    for (name, size) in declared.sizes.iter().filter(|(name, _)| ours(name)) {
        compare(
            format!("size of {name}"),
            *size as i64,
            format!("size_of::<rdma_sys::{name}>()"),
        );
    }
    for ((name, field), offset) in declared.offsets.iter().filter(|((name, _), _)| ours(name)) {
        // What is opaque there has no fields.
        if !field.starts_with("_bindgen") {
            let seen = format!("std::mem::offset_of!(rdma_sys::{name}, {field})");
            compare(format!("offset of {name}.{field}"), *offset as i64, seen);
        }
    }
    for (kind, name, value) in &declared.constants {
        let seen = match kind.as_str() {
            "ibv_gid_type" => format!("rdma_sys::{name}"),
            _ if NEWTYPES.contains(&kind.as_str()) => format!("rdma_sys::{kind}::{name}.0"),
            _ => format!("rdma_sys::{kind}::{name}"),
        };
        compare(name.clone(), *value, seen);
    }
    code.push_str("}\n");
    let place = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("compare.rs");
    fs::write(&place, code).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
}
