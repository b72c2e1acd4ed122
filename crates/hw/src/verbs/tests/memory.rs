//! Registered memory.

use nix::errno::Errno;
use verbatim_wire::verbs::Access;

use crate::verbs::VerbsError;

use super::fake::{opened, world};

#[test]
fn memory_is_zeroed_aligned_and_keyed() {
    let pd = opened().create_protection_domain().unwrap();
    let access = Access {
        remote_read: true,
        ..Access::LOCAL
    };
    let region = pd.register(5000, access).unwrap();
    assert_eq!(region.addr() % 4096, 0);
    assert_eq!(region.addr(), world(|world| world.registered) as u64);
    assert_eq!((region.lkey(), region.rkey()), (0x105, 0x205));
    assert_eq!(region.read(0, 5000).unwrap(), vec![0; 5000]);
}

#[test]
fn write_and_read_work_at_any_offset() {
    let pd = opened().create_protection_domain().unwrap();
    let region = pd.register(64, Access::LOCAL).unwrap();
    for offset in 0..16 {
        for length in 0..24 {
            let bytes: Vec<u8> = (1..=length).collect();
            region.write(0, &[0xee; 64]).unwrap();
            region.write(offset, &bytes).unwrap();
            let mut expected = vec![0xee; 64];
            expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(region.read(0, 64).unwrap(), expected, "{offset} {length}");
            assert_eq!(region.read(offset, bytes.len()).unwrap(), bytes);
        }
    }
}

#[test]
fn access_outside_region_is_refused() {
    let pd = opened().create_protection_domain().unwrap();
    let region = pd.register(16, Access::LOCAL).unwrap();
    for (offset, length) in [(16, 1), (0, 17), (17, 0), (usize::MAX, 2)] {
        let error = region.read(offset, length).unwrap_err();
        assert!(matches!(error, VerbsError::OutOfRegion { size: 16, .. }), "{error:?}");
    }
    assert!(region.write(15, &[1, 2]).is_err());
    assert_eq!(region.read(0, 16).unwrap(), [0; 16]);
    assert_eq!(region.read(16, 0).unwrap(), []);
}

#[test]
fn refused_memory_error_names_limit() {
    let pd = opened().create_protection_domain().unwrap();
    world(|world| world.fails.push(("+mr", Errno::ENOMEM)));
    let error = pd.register(4096, Access::default()).unwrap_err();
    assert!(
        error.to_string().contains("(4096 bytes)") && error.to_string().contains("ulimit -l"),
        "{error}"
    );
    assert!(matches!(
        pd.register(0, Access::default()),
        Err(VerbsError::Argument { .. })
    ));
    let error = pd.register(usize::MAX / 2, Access::default()).unwrap_err();
    assert!(error.to_string().starts_with("mmap on fake0"), "{error}");
}

/// After a failed deregistration, the device may still write to the memory. If the system gave the address to
/// other code, the device could overwrite that code's data.
#[test]
fn failed_deregistration_keeps_memory_mapped() {
    let pd = opened().create_protection_domain().unwrap();
    let mapped = |address: u64| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let range = line.split(' ').next().unwrap().split_once('-').unwrap();
            let bound = |text| u64::from_str_radix(text, 16).unwrap();
            (bound(range.0)..bound(range.1)).contains(&address)
        })
    };
    // The region is large, so that no other test gets the same address.
    let region = pd.register(64 << 20, Access::default()).unwrap();
    let address = region.addr();
    world(|world| world.fails.push(("-mr", Errno::EBUSY)));
    drop(region);
    assert!(mapped(address));
}
