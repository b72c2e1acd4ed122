//! Listing, opening, querying.

use nix::errno::Errno;
use verbatim_wire::{Lid, Mtu};

use crate::verbs::GidType;

use super::fake::{library, opened, world};

#[test]
fn devices_are_listed_and_the_list_is_given_back() {
    assert_eq!(library().devices().unwrap(), ["fake0"]);
    assert_eq!(world(|world| world.log.clone()), ["+list", "-list"]);
}

#[test]
fn a_kernel_without_rdma_is_unavailable_and_says_what_to_load() {
    world(|world| world.fails.push(("list", Errno::ENOSYS)));
    let error = library().devices().unwrap_err();
    assert!(error.to_string().contains("modprobe ib_uverbs"), "{error}");
    assert_eq!(error.errno(), Some(Errno::ENOSYS as i32));
}

#[test]
fn an_absent_device_is_named_beside_those_that_exist() {
    let error = library().open_device("mlx5_9").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no verbs device \"mlx5_9\" on this machine; these exist: fake0: correct the name of the device"
    );
    assert_eq!(world(|world| world.log.clone()), ["+list", "-list"]);
}

#[test]
fn a_machine_without_devices_says_how_to_get_one() {
    world(|world| world.no_device = true);
    assert_eq!(library().devices().unwrap(), [""; 0]);
    let error = library().open_device("rxe0").unwrap_err();
    assert!(error.to_string().contains("rdma link add rxe0"), "{error}");
}

#[test]
fn a_device_that_does_not_open_says_why() {
    world(|world| world.fails.push(("+context", Errno::EACCES)));
    let error = library().open_device("fake0").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("Permission denied") && text.contains("/dev/infiniband/uverbs"),
        "{text}"
    );
}

#[test]
fn a_device_says_what_it_is() {
    let seen = opened().query_device().unwrap();
    assert_eq!(
        (seen.fw_ver.as_str(), seen.node_guid, seen.max_qp),
        ("9.8.7", 0xabcd, 1024)
    );
    assert!(seen.atomics);
}

#[test]
fn a_port_says_its_state() {
    let seen = opened().query_port(1).unwrap();
    assert_eq!(
        (seen.lid, seen.state, seen.active_mtu, seen.ethernet),
        (Lid(2), 4, Mtu::B1024, true)
    );
}

#[test]
fn an_absent_port_is_an_error_that_names_it() {
    let error = opened().query_port(2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ibv_query_port on fake0 (port 2) failed (Invalid argument (os error 22)); no such port, or no such index of \
         its table"
    );
}

#[test]
fn the_gid_table_has_the_entries_that_are_filled() {
    let table = opened().gid_table(1).unwrap();
    let seen: Vec<_> = table
        .iter()
        .map(|entry| (entry.index, entry.gid.0[15], entry.kind))
        .collect();
    assert_eq!(seen, [(1, 1, GidType::Ib), (3, 3, GidType::RoceV2)]);
    assert_eq!(table[1].kind.to_string(), "RoCE v2");
}

#[test]
fn a_gid_that_cannot_be_read_is_an_error_and_not_an_empty_entry() {
    let context = opened();
    world(|world| world.fails.push(("gid", Errno::EIO)));
    let error = context.gid_table(1).unwrap_err();
    assert!(error.to_string().contains("fake0 (port 1, index 0)"), "{error}");
}
