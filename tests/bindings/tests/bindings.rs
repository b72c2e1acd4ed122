//! The committed bindings against the headers that are installed: sizes, offsets and constants.
//!
//! rdma-sys, which bindgen makes anew from the headers, is asked for what it takes from there; the C compiler for all of
//! it, and for libibumad.

use std::{env, fmt::Write, process::Command};

use verbatim_bindings::{Declared, umad, verbs};

include!(concat!(env!("OUT_DIR"), "/compare.rs"));

const NEXT: &str = "the header has changed: run crates/hw/bindgen.sh (umad: correct crates/umad/src/ffi.rs), and look \
                    at what uses it";

#[test]
fn the_bindings_of_libibverbs_are_those_that_rdma_sys_makes_of_the_header() {
    let (mut compared, mut wrong) = (0, Vec::new());
    compare(&mut |what, expected, seen| {
        compared += 1;
        if expected != seen {
            wrong.push(format!("{what}: committed {expected}, in the header {seen}"));
        }
    });
    assert!(
        compared > 200,
        "only {compared} comparisons: is generated.rs still read?"
    );
    assert!(wrong.is_empty(), "{}\n{NEXT}", wrong.join("\n"));
}

#[test]
fn the_bindings_of_libibverbs_are_those_of_the_c_compiler() {
    let declared = verbs();
    assert!(declared.sizes.len() > 30 && declared.offsets.len() > 200 && declared.constants.len() > 100);
    compile("infiniband/verbs.h", &declared, verbs_in_c);
}

#[test]
fn the_bindings_of_libibumad_are_those_of_the_c_compiler() {
    let declared = umad();
    assert!(declared.sizes.len() == 4 && declared.offsets.len() > 30, "{declared:?}");
    compile("infiniband/umad.h", &declared, |name| Some(name.to_owned()));
}

/// A type of `generated.rs` in C. Those without a name are reached through the structure that they are in.
fn verbs_in_c(name: &str) -> Option<String> {
    let inside = |of: &str, path: &str| Some(format!("__typeof__(((struct {of} *)0)->{path})"));
    match name {
        // Of the C library; that the numbers hold, the structures around them show.
        name if name.starts_with("__") || name == "_compat_ibv_port_attr" => None,
        "ibv_gid" => Some("union ibv_gid".into()),
        "ibv_gid__bindgen_ty_1" => Some("__typeof__(((union ibv_gid *)0)->global)".into()),
        "ibv_async_event__bindgen_ty_1" => inside("ibv_async_event", "element"),
        "ibv_send_wr__bindgen_ty_2" => inside("ibv_send_wr", "wr"),
        "ibv_send_wr__bindgen_ty_2__bindgen_ty_1" => inside("ibv_send_wr", "wr.rdma"),
        "ibv_send_wr__bindgen_ty_2__bindgen_ty_2" => inside("ibv_send_wr", "wr.atomic"),
        "ibv_send_wr__bindgen_ty_2__bindgen_ty_3" => inside("ibv_send_wr", "wr.ud"),
        "ibv_send_wr__bindgen_ty_3" => inside("ibv_send_wr", "qp_type"),
        "ibv_send_wr__bindgen_ty_3__bindgen_ty_1" => inside("ibv_send_wr", "qp_type.xrc"),
        "ibv_send_wr__bindgen_ty_4__bindgen_ty_1" => inside("ibv_send_wr", "bind_mw"),
        "ibv_send_wr__bindgen_ty_4__bindgen_ty_2" => inside("ibv_send_wr", "tso"),
        // Unions without a name of their own: their first members stand for them.
        "ibv_wc__bindgen_ty_1" | "ibv_send_wr__bindgen_ty_1" | "ibv_send_wr__bindgen_ty_4" => None,
        name if name.contains("__bindgen") => panic!("{name} has no name in C: add it here"),
        name => Some(format!("struct {name}")),
    }
}

/// Has the C compiler compare. It says which assertion does not hold.
fn compile(header: &str, declared: &Declared, in_c: impl Fn(&str) -> Option<String>) {
    let mut code = format!("#include <stddef.h>\n#include <{header}>\n");
    let mut assert = |what: String, expected: i64| {
        writeln!(
            code,
            "_Static_assert(({what}) == {expected}, \"committed {expected}\");"
        )
        .expect("a string grows");
    };
    for (name, size) in &declared.sizes {
        if let Some(name) = in_c(name) {
            assert(format!("sizeof({name})"), *size as i64);
        }
    }
    for ((name, field), offset) in &declared.offsets {
        let field = match (name.as_str(), field.as_str()) {
            (_, field) if field.starts_with("_bindgen") => continue,
            ("ibv_wc" | "ibv_send_wr", "__bindgen_anon_1") => "imm_data",
            ("ibv_send_wr", "__bindgen_anon_2") => "bind_mw",
            ("ib_user_mad_t", "address") => "addr",
            (_, "type_") => "type",
            (_, field) => field,
        };
        if let Some(name) = in_c(name) {
            assert(format!("offsetof({name}, {field})"), *offset as i64);
        }
    }
    for (_, name, value) in &declared.constants {
        assert(name.clone(), *value);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("layout.c");
    std::fs::write(&source, code).expect("the source is written");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-fsyntax-only"])
        .arg(&source)
        .output()
        .expect("the C compiler starts: apt-get install gcc, or set CC");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{NEXT}");
}
