//! Fake functions that list, open and query a device.

use std::{
    ffi::{c_char, c_int},
    os::{
        fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    ptr,
};

use nix::errno::Errno;

use super::{destroy, fails, make, objects, world};
use crate::verbs::{c, ffi::Zeroed};

pub(super) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut c::ibv_device {
    if let Some(errno) = fails("list") {
        Errno::set_raw(errno);
        return ptr::null_mut();
    }
    let mut devices: Vec<*mut c::ibv_device> = Vec::new();
    if !world(|world| world.no_device) {
        let mut device = Box::new(c::ibv_device::zeroed());
        device.node_type = c::ibv_node_type::IBV_NODE_CA;
        for (to, from) in device.name.iter_mut().zip(b"fake0") {
            *to = *from as c_char;
        }
        devices.push(Box::into_raw(device));
    }
    world(|world| world.log.push("+list"));
    // SAFETY: the pointer is the caller's own number.
    unsafe { *count = devices.len() as c_int };
    devices.push(ptr::null_mut());
    Box::into_raw(devices.into_boxed_slice()).cast()
}

pub(super) unsafe extern "C" fn free_device_list(list: *mut *mut c::ibv_device) {
    world(|world| world.log.push("-list"));
    // SAFETY: made above: at most one device, then a null pointer.
    unsafe {
        let length = if (*list).is_null() { 1 } else { 2 };
        for device in Box::from_raw(ptr::slice_from_raw_parts_mut(list, length)).iter() {
            if !device.is_null() {
                drop(Box::from_raw(*device));
            }
        }
    }
}

pub(super) unsafe extern "C" fn get_device_name(device: *mut c::ibv_device) -> *const c_char {
    // SAFETY: the device is of the list.
    unsafe { (*device).name.as_ptr() }
}

pub(super) unsafe extern "C" fn open_device(_device: *mut c::ibv_device) -> *mut c::ibv_context {
    let context: *mut c::ibv_context = make("+context");
    if context.is_null() {
        return ptr::null_mut();
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    world(|world| world.async_end = Some(theirs));
    // SAFETY: just made.
    unsafe {
        (*context).async_fd = ours.into_raw_fd();
        (*context).ops.poll_cq = Some(objects::poll_cq);
        (*context).ops.post_send = Some(objects::post_send);
        (*context).ops.post_recv = Some(objects::post_recv);
    }
    context
}

pub(super) unsafe extern "C" fn close_device(context: *mut c::ibv_context) -> c_int {
    // SAFETY: made by open_device.
    unsafe {
        drop(OwnedFd::from_raw_fd((*context).async_fd));
        destroy("-context", context)
    }
}

pub(super) unsafe extern "C" fn query_device(
    _context: *mut c::ibv_context,
    attributes: *mut c::ibv_device_attr,
) -> c_int {
    // SAFETY: the caller's structure.
    let attributes = unsafe { &mut *attributes };
    for (to, from) in attributes.fw_ver.iter_mut().zip(b"9.8.7") {
        *to = *from as c_char;
    }
    attributes.node_guid = 0xabcd_u64.to_be();
    attributes.max_qp = 1024;
    attributes.atomic_cap = c::ibv_atomic_cap::IBV_ATOMIC_HCA;
    fails("query_device").unwrap_or(0)
}

/// Acts like the exported function `ibv_query_port`, which does not fill the fields after `link_layer`.
pub(super) unsafe extern "C" fn query_port(
    _context: *mut c::ibv_context,
    port: u8,
    attributes: *mut c::_compat_ibv_port_attr,
) -> c_int {
    let attributes: *mut c::ibv_port_attr = attributes.cast();
    // SAFETY: the caller's structure.
    let attributes = unsafe { &mut *attributes };
    attributes.lid = 2;
    attributes.gid_tbl_len = 4;
    attributes.state = c::ibv_port_state::IBV_PORT_ACTIVE;
    attributes.active_mtu = c::ibv_mtu::IBV_MTU_1024;
    attributes.link_layer = 2;
    if port == 1 { 0 } else { Errno::EINVAL as c_int }
}

/// Reports GIDs at indices 1 and 3 of a table with four entries.
pub(super) unsafe extern "C" fn query_gid_ex(
    _context: *mut c::ibv_context,
    port: u32,
    index: u32,
    entry: *mut c::ibv_gid_entry,
    flags: u32,
    length: usize,
) -> c_int {
    assert_eq!((flags, length), (0, size_of::<c::ibv_gid_entry>()));
    assert!(index < 4);
    if let Some(errno) = fails("gid") {
        return errno;
    }
    if index.is_multiple_of(2) {
        return Errno::ENODATA as c_int;
    }
    let mut gid = [0; 16];
    gid[15] = index as u8;
    // SAFETY: the caller's entry.
    unsafe {
        *entry = c::ibv_gid_entry {
            gid: c::ibv_gid { raw: gid },
            gid_index: index,
            port_num: port,
            gid_type: index - 1,
            ndev_ifindex: 7,
        };
    }
    0
}

pub(super) unsafe extern "C" fn get_async_event(context: *mut c::ibv_context, event: *mut c::ibv_async_event) -> c_int {
    let mut byte = [0];
    // SAFETY: the context is open.
    let fd = unsafe { BorrowedFd::borrow_raw((*context).async_fd) };
    // Like a read of one event: EAGAIN if there is none.
    if nix::unistd::read(fd, &mut byte).is_err() {
        return -1;
    }
    let Some(next) = world(|world| world.async_events.pop_front()) else {
        Errno::EIO.set();
        return -1;
    };
    // SAFETY: the caller's event.
    unsafe { *event = next };
    0
}

pub(super) unsafe extern "C" fn ack_async_event(_event: *mut c::ibv_async_event) {
    world(|world| world.acknowledged += 1);
}
