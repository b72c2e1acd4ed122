//! Listing, opening, querying.

use crate::verbs::{AtomicCapability, GidType, LinkLayer, Mtu, PortState, VerbsError};

use super::fake::{library, opened, world};

#[test]
fn devices_are_listed_and_the_list_is_given_back() {
    let devices = library().devices().unwrap();
    assert_eq!(
        (devices[0].name.as_str(), devices[0].node_guid, devices[0].node_type),
        ("fake0", 0x1122_3344_5566_7788, 1)
    );
    assert_eq!(world(|world| world.log.clone()), ["+list", "-list"]);
}

#[test]
fn a_kernel_without_rdma_is_unavailable_and_says_what_to_load() {
    world(|world| world.fails.push(("list", libc::ENOSYS)));
    let error = library().devices().unwrap_err();
    assert!(error.to_string().contains("modprobe ib_uverbs"), "{error}");
    assert_eq!(error.errno(), Some(libc::ENOSYS));
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
    assert_eq!(library().devices().unwrap(), []);
    let error = library().open_device("rxe0").unwrap_err();
    assert!(error.to_string().contains("rdma link add rxe0"), "{error}");
}

#[test]
fn a_device_that_does_not_open_says_why() {
    world(|world| world.fails.push(("+context", libc::EACCES)));
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
        (seen.fw_ver.as_str(), seen.node_guid, seen.max_qp_wr),
        ("9.8.7", 0xabcd, 1024)
    );
    assert_eq!(seen.atomic_cap, AtomicCapability::HCA);
}

#[test]
fn a_port_is_queried_through_the_driver_and_not_through_the_older_function() {
    let seen = opened().query_port(1).unwrap();
    assert_eq!(
        (seen.lid, seen.state, seen.active_mtu),
        (2, PortState::ACTIVE, Mtu::MTU_1024)
    );
    assert_eq!(seen.link_layer, LinkLayer::ETHERNET);
}

#[test]
fn a_driver_without_the_newer_query_is_asked_by_the_older_one() {
    for older in [0, 1, 2] {
        let context = opened();
        let before = std::mem::offset_of!(crate::verbs::generated::verbs_context, context);
        let plain = context.pointer();
        let whole: *mut crate::verbs::generated::verbs_context = plain.wrapping_byte_sub(before).cast();
        // SAFETY: the stand-in's context, on which nothing else works at this moment.
        unsafe {
            match older {
                0 => (*plain).abi_compat = std::ptr::null_mut(),
                1 => (*whole).sz -= 8,
                _ => (*whole).query_port = None,
            }
        }
        let seen = context.query_port(1).unwrap();
        assert_eq!((seen.lid, seen.state), (1, PortState::NOP));
    }
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
        .map(|entry| (entry.index, entry.gid[15], entry.kind))
        .collect();
    assert_eq!(seen, [(1, 1, GidType::Ib), (3, 3, GidType::RoceV2)]);
    assert_eq!(table[0].ndev_ifindex, 7);
    assert_eq!(table[0].address().to_string(), "::1");
}

#[test]
fn a_gid_that_cannot_be_read_is_an_error_and_not_an_empty_entry() {
    let context = opened();
    world(|world| world.fails.push(("gid", libc::EIO)));
    let error = context.gid_table(1).unwrap_err();
    assert!(error.to_string().contains("fake0 (port 1, index 0)"), "{error}");
}

#[test]
fn a_partition_key_is_read_in_host_order() {
    let context = opened();
    assert_eq!(context.pkey(1, 0).unwrap(), 0xffef);
    assert!(matches!(context.pkey(1, 9), Err(VerbsError::Call { .. })));
}
