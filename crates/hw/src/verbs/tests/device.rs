//! Listing, opening and querying devices.

use nix::errno::Errno;
use verbatim_wire::{Lid, Mtu};

use crate::verbs::GidType;

use super::fake::{library, opened, world};

#[test]
fn device_list_is_freed() {
    assert_eq!(library().devices().unwrap(), ["fake0"]);
    assert_eq!(world(|world| world.log.clone()), ["+list", "-list"]);
}

#[test]
fn missing_kernel_rdma_error_names_module() {
    world(|world| world.fails.push(("list", Errno::ENOSYS)));
    let error = library().devices().unwrap_err();
    assert!(error.to_string().contains("modprobe ib_uverbs"), "{error}");
    assert_eq!(error.errno(), Some(Errno::ENOSYS as i32));
}

#[test]
fn absent_device_error_lists_existing() {
    let error = library().open_device("mlx5_9").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no verbs device \"mlx5_9\" on this machine; these exist: fake0: correct the name of the device"
    );
    assert_eq!(world(|world| world.log.clone()), ["+list", "-list"]);
}

#[test]
fn machine_without_device_suggests_rxe() {
    world(|world| world.no_device = true);
    assert_eq!(library().devices().unwrap(), [""; 0]);
    let error = library().open_device("rxe0").unwrap_err();
    assert!(error.to_string().contains("rdma link add rxe0"), "{error}");
}

#[test]
fn open_failure_names_the_cause() {
    world(|world| world.fails.push(("+context", Errno::EACCES)));
    let error = library().open_device("fake0").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("Permission denied") && text.contains("/dev/infiniband/uverbs"),
        "{text}"
    );
}

#[test]
fn query_device_shows_attributes() {
    let seen = opened().query_device().unwrap();
    assert_eq!(
        (seen.fw_ver.as_str(), seen.node_guid, seen.max_qp),
        ("9.8.7", 0xabcd, 1024)
    );
    assert!(seen.atomics);
}

#[test]
fn query_port_shows_state() {
    let seen = opened().query_port(1).unwrap();
    assert_eq!(
        (seen.lid, seen.state, seen.active_mtu, seen.ethernet),
        (Lid(2), 4, Mtu::B1024, true)
    );
}

#[test]
fn absent_port_is_named_in_error() {
    let error = opened().query_port(2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ibv_query_port on fake0 (port 2) failed (Invalid argument (os error 22)); no such port, or no such index of \
         its table"
    );
}

#[test]
fn gid_table_skips_empty_entries() {
    let table = opened().gid_table(1).unwrap();
    let seen: Vec<_> = table
        .iter()
        .map(|entry| (entry.index, entry.gid.0[15], entry.kind))
        .collect();
    assert_eq!(seen, [(1, 1, GidType::Ib), (3, 3, GidType::RoceV2)]);
    assert_eq!(table[1].kind.to_string(), "RoCE v2");
}

#[test]
fn unreadable_gid_is_an_error() {
    let context = opened();
    world(|world| world.fails.push(("gid", Errno::EIO)));
    let error = context.gid_table(1).unwrap_err();
    assert!(error.to_string().contains("fake0 (port 1, index 0)"), "{error}");
}
