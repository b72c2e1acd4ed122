//! Compares the declarations in `generated.rs` with the installed header. One test compares the declarations that this
//! crate uses with those of rdma-sys, which are generated from the header. The other tests let the C compiler check
//! every size, offset and constant, including those of libibumad (crate umad).

use std::{collections::BTreeMap, env, fmt::Write, fs, path::Path, process::Command};

use crate::verbs::generated;

const NEXT: &str = "the header has changed: run crates/hw/bindgen.sh (umad: correct crates/umad/src/ffi.rs), and look \
                    at what uses it";

#[test]
fn declarations_match_rdma_sys() {
    let mut wrong = Vec::new();
    let mut same = |what: &str, ours: i64, theirs: i64| {
        if ours != theirs {
            wrong.push(format!("{what}: ours {ours}, of rdma-sys {theirs}"));
        }
    };
    macro_rules! sizes {
        ($($name:ident)*) => {
            $(same(
                concat!("size of ", stringify!($name)),
                size_of::<generated::$name>() as i64,
                size_of::<rdma_sys::$name>() as i64,
            );)*
        };
    }
    sizes! {
        ibv_ah ibv_ah_attr ibv_async_event ibv_context ibv_cq ibv_device ibv_device_attr ibv_gid ibv_gid_entry
        ibv_global_route ibv_mr ibv_pd ibv_port_attr ibv_qp ibv_qp_attr ibv_qp_cap ibv_qp_init_attr ibv_recv_wr
        ibv_send_wr ibv_sge ibv_wc
    }
    macro_rules! offsets {
        ($($name:ident: $($field:ident)*;)*) => {
            $($(same(
                concat!(stringify!($name), ".", stringify!($field)),
                std::mem::offset_of!(generated::$name, $field) as i64,
                std::mem::offset_of!(rdma_sys::$name, $field) as i64,
            );)*)*
        };
    }
    offsets! {
        ibv_ah_attr: grh dlid sl is_global port_num;
        ibv_async_event: element event_type;
        ibv_context: device ops async_fd;
        ibv_device_attr: fw_ver node_guid vendor_id vendor_part_id hw_ver max_qp max_qp_rd_atom max_qp_init_rd_atom
            atomic_cap phys_port_cnt local_ca_ack_delay;
        ibv_gid_entry: gid gid_index gid_type;
        ibv_port_attr: state active_mtu gid_tbl_len lid link_layer;
        ibv_qp: context qp_num;
        ibv_qp_attr: qp_state path_mtu qkey rq_psn sq_psn dest_qp_num qp_access_flags ah_attr pkey_index max_rd_atomic
            max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt rnr_retry;
        ibv_recv_wr: wr_id next sg_list num_sge;
        ibv_send_wr: wr_id next sg_list num_sge opcode send_flags wr;
        ibv_sge: addr length lkey;
        ibv_wc: wr_id status opcode vendor_err byte_len qp_num wc_flags;
    }
    macro_rules! constants {
        ($($of:ident: $($name:ident)*;)*) => {
            $($(same(stringify!($name), generated::$of::$name as i64, rdma_sys::$of::$name as i64);)*)*
        };
    }
    constants! {
        ibv_atomic_cap: IBV_ATOMIC_NONE IBV_ATOMIC_HCA;
        ibv_mtu: IBV_MTU_256 IBV_MTU_512 IBV_MTU_1024 IBV_MTU_2048 IBV_MTU_4096;
        ibv_qp_state: IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_SQD IBV_QPS_SQE IBV_QPS_ERR;
        ibv_qp_type: IBV_QPT_RC IBV_QPT_UD;
        ibv_wr_opcode: IBV_WR_SEND IBV_WR_SEND_WITH_IMM IBV_WR_SEND_WITH_INV IBV_WR_RDMA_WRITE
            IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD;
    }
    macro_rules! flags {
        ($($of:ident: $($name:ident)*;)*) => {
            $($(same(stringify!($name), generated::$of::$name.0.into(), rdma_sys::$of::$name.0.into());)*)*
        };
    }
    flags! {
        ibv_access_flags: IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ
            IBV_ACCESS_REMOTE_ATOMIC;
        ibv_qp_attr_mask: IBV_QP_STATE IBV_QP_ACCESS_FLAGS IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_QKEY IBV_QP_AV
            IBV_QP_PATH_MTU IBV_QP_TIMEOUT IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_RQ_PSN IBV_QP_MAX_QP_RD_ATOMIC
            IBV_QP_MIN_RNR_TIMER IBV_QP_SQ_PSN IBV_QP_MAX_DEST_RD_ATOMIC IBV_QP_DEST_QPN;
        ibv_send_flags: IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_SOLICITED;
        ibv_wc_flags: IBV_WC_WITH_IMM;
    }
    assert!(wrong.is_empty(), "{}\n{NEXT}", wrong.join("\n"));
}

#[test]
fn declarations_match_c_compiler() {
    let declared = verbs();
    assert!(declared.sizes.len() > 30 && declared.offsets.len() > 200 && declared.constants.len() > 100);
    compile("infiniband/verbs.h", &declared, verbs_in_c);
}

#[test]
fn umad_declarations_match_c_compiler() {
    let declared = umad();
    assert!(declared.sizes.len() == 4 && declared.offsets.len() > 30, "{declared:?}");
    compile("infiniband/umad.h", &declared, |name| Some(name.to_owned()));
}

/// The declarations of a file, read from the file's own assertions.
#[derive(Debug, Default)]
struct Declared {
    /// Size of each type in bytes.
    sizes: BTreeMap<String, usize>,
    /// Offset in bytes, by type and field.
    offsets: BTreeMap<(String, String), usize>,
    /// Name and value of each constant.
    constants: Vec<(String, i64)>,
}

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text between `before` and `after`, and the text behind `after`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after)
}

/// Reads `generated.rs`. Its assertions name each size and each offset, and the compiler checks them.
fn verbs() -> Declared {
    let mut found = Declared::default();
    let text = source("hw/src/verbs/generated.rs");
    // An assertion may span several lines.
    let mut rest = text.as_str();
    while let Some((what, behind)) = between(rest, "[\"", "\"]") {
        let number = |end: &str| -> usize {
            let (body, _) = behind.split_once(end).expect("the end of an assertion");
            let (_, number) = body.rsplit_once("- ").expect("a difference");
            number.trim().parse().unwrap_or_else(|_| panic!("{what}: {number}"))
        };
        if let Some(name) = what.strip_prefix("Size of ") {
            found.sizes.insert(name.into(), number("usize]"));
        } else if let Some(field) = what.strip_prefix("Offset of field: ") {
            let (name, field) = field.split_once("::").expect("a type and its field");
            found.offsets.insert((name.into(), field.into()), number("usize]"));
        }
        rest = behind;
    }
    let mut rest = text.as_str();
    while let Some((name, behind)) = between(rest, "pub const ", ":") {
        let Some((declared, behind)) = between(behind, " ", ";") else {
            break;
        };
        if let Some((_, value)) = declared.split_once('=') {
            let value = between(value, "(", ")").map_or(value, |(value, _)| value);
            if let Ok(value) = value.trim().parse() {
                found.constants.push((name.trim().into(), value));
            }
        }
        rest = behind;
    }
    found
}

/// Reads the table `layouts!` of `crates/umad/src/ffi.rs`, with the names of `infiniband/umad.h`.
fn umad() -> Declared {
    let mut found = Declared::default();
    let text = source("umad/src/ffi.rs");
    let (table, _) = between(&text, "\nlayouts! {\n", "\n}\n").expect("umad/src/ffi.rs has a table of layouts");
    for of in table.split('}').filter(|of| !of.trim().is_empty()) {
        let (head, fields) = of.split_once('{').expect("a type and its fields");
        let [_, name, size] = head.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{head}: expected the type, its name in C and its size");
        };
        let name = name.trim_matches('"').to_owned();
        let number = |word: &str| {
            word.parse()
                .unwrap_or_else(|_| panic!("{word}: expected a number of bytes"))
        };
        found.sizes.insert(name.clone(), number(size));
        for field in fields.split_whitespace().collect::<Vec<_>>().chunks(2) {
            found.offsets.insert((name.clone(), field[0].into()), number(field[1]));
        }
    }
    found
}

/// Returns the C name of a type of `generated.rs`, or `None` if its size is not checked. Names an unnamed type through
/// the structure that contains it.
fn verbs_in_c(name: &str) -> Option<String> {
    let inside = |of: &str, path: &str| Some(format!("__typeof__(((struct {of} *)0)->{path})"));
    match name {
        // Types of the C library. The offsets in the structures that contain them check their sizes.
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
        // Unnamed unions. `compile` checks the offsets of their first members instead.
        "ibv_wc__bindgen_ty_1" | "ibv_send_wr__bindgen_ty_1" | "ibv_send_wr__bindgen_ty_4" => None,
        name if name.contains("__bindgen") => panic!("{name} has no name in C: add it here"),
        name => Some(format!("struct {name}")),
    }
}

/// Lets the C compiler check the declarations. The compiler's message names each wrong declaration.
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
    for (name, value) in &declared.constants {
        assert(name.clone(), *value);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("layout.c");
    fs::write(&source, code).expect("the source is written");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-fsyntax-only"])
        .arg(&source)
        .output()
        .expect("the C compiler starts: apt-get install gcc, or set CC");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{NEXT}");
}
