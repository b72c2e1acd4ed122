//! Fake functions that make, use and destroy the objects of a device.

use std::ffi::{c_int, c_void};

use super::{destroy, fails, make, world};
use crate::verbs::c;

pub(super) unsafe extern "C" fn alloc_pd(context: *mut c::ibv_context) -> *mut c::ibv_pd {
    let pd: *mut c::ibv_pd = make("+pd");
    if !pd.is_null() {
        // SAFETY: just made.
        unsafe { (*pd).context = context };
    }
    pd
}

pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut c::ibv_pd) -> c_int {
    // SAFETY: made above.
    unsafe { destroy("-pd", pd) }
}

pub(super) unsafe extern "C" fn reg_mr(
    _pd: *mut c::ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut c::ibv_mr {
    let mr: *mut c::ibv_mr = make("+mr");
    if !mr.is_null() {
        world(|world| world.registered = address.addr());
        // SAFETY: just made.
        unsafe {
            (*mr).addr = address;
            (*mr).length = length;
            (*mr).lkey = 0x100 + access as u32;
            (*mr).rkey = 0x200 + access as u32;
        }
    }
    mr
}

pub(super) unsafe extern "C" fn dereg_mr(mr: *mut c::ibv_mr) -> c_int {
    // SAFETY: made above.
    unsafe { destroy("-mr", mr) }
}

pub(super) unsafe extern "C" fn create_ah(_pd: *mut c::ibv_pd, _attributes: *mut c::ibv_ah_attr) -> *mut c::ibv_ah {
    make("+ah")
}

pub(super) unsafe extern "C" fn destroy_ah(ah: *mut c::ibv_ah) -> c_int {
    // SAFETY: made above.
    unsafe { destroy("-ah", ah) }
}

pub(super) unsafe extern "C" fn create_cq(
    context: *mut c::ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut c::ibv_comp_channel,
    vector: c_int,
) -> *mut c::ibv_cq {
    assert!(vector == 0 && channel.is_null() && cq_context.is_null());
    let cq: *mut c::ibv_cq = make("+cq");
    if !cq.is_null() {
        // SAFETY: just made.
        unsafe {
            (*cq).context = context;
            (*cq).cqe = entries;
        }
    }
    cq
}

pub(super) unsafe extern "C" fn destroy_cq(cq: *mut c::ibv_cq) -> c_int {
    // SAFETY: made above.
    unsafe { destroy("-cq", cq) }
}

pub(super) unsafe extern "C" fn poll_cq(_cq: *mut c::ibv_cq, most: c_int, room: *mut c::ibv_wc) -> c_int {
    if let Some(errno) = fails("poll") {
        return -errno;
    }
    let mut count = 0;
    while count < most {
        let Some(completion) = world(|world| world.completions.pop_front()) else {
            break;
        };
        // SAFETY: the array has space for `most`.
        unsafe { *room.add(count as usize) = completion };
        count += 1;
    }
    count
}

pub(super) unsafe extern "C" fn create_qp(pd: *mut c::ibv_pd, attributes: *mut c::ibv_qp_init_attr) -> *mut c::ibv_qp {
    let qp: *mut c::ibv_qp = make("+qp");
    if !qp.is_null() {
        let number = world(|world| {
            world.qps.push(qp);
            0x10 + world.qps.len() as u32
        });
        // SAFETY: just made; the attributes are the caller's.
        unsafe {
            (*qp).context = (*pd).context;
            (*qp).qp_num = number;
            (*attributes).cap.max_send_wr += 1; // Drivers round up.
        }
    }
    qp
}

pub(super) unsafe extern "C" fn modify_qp(_qp: *mut c::ibv_qp, attributes: *mut c::ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: the attributes are the caller's: numbers, copied.
    world(|world| world.modified.push((unsafe { attributes.read() }, mask)));
    fails("modify").unwrap_or(0)
}

pub(super) unsafe extern "C" fn query_qp(
    _qp: *mut c::ibv_qp,
    attributes: *mut c::ibv_qp_attr,
    _mask: c_int,
    _setup: *mut c::ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the attributes are the caller's: numbers, copied.
    world(|world| unsafe {
        if let Some((last, _)) = world.modified.last() {
            attributes.copy_from(last, 1);
        }
        (*attributes).qp_state = world.state;
    });
    fails("query_qp").unwrap_or(0)
}

pub(super) unsafe extern "C" fn destroy_qp(qp: *mut c::ibv_qp) -> c_int {
    // SAFETY: made above.
    unsafe { destroy("-qp", qp) }
}

/// # Safety
///
/// `first` points to `count` entries.
unsafe fn list(first: *const c::ibv_sge, count: c_int) -> Vec<c::ibv_sge> {
    // SAFETY: the list is the caller's.
    (0..count as usize).map(|index| unsafe { *first.add(index) }).collect()
}

pub(super) unsafe extern "C" fn post_send(
    _qp: *mut c::ibv_qp,
    request: *mut c::ibv_send_wr,
    refused: *mut *mut c::ibv_send_wr,
) -> c_int {
    // SAFETY: the request, its list and `refused` are the caller's.
    unsafe {
        assert!((*request).next.is_null());
        if let Some(errno) = fails("post_send") {
            *refused = request;
            return errno;
        }
        let list = list((*request).sg_list, (*request).num_sge);
        world(|world| world.sends.push((request.read(), list)));
    }
    0
}

pub(super) unsafe extern "C" fn post_recv(
    _qp: *mut c::ibv_qp,
    request: *mut c::ibv_recv_wr,
    refused: *mut *mut c::ibv_recv_wr,
) -> c_int {
    // SAFETY: the request, its list and `refused` are the caller's.
    unsafe {
        assert!((*request).next.is_null());
        if let Some(errno) = fails("post_recv") {
            *refused = request;
            return errno;
        }
        let list = list((*request).sg_list, (*request).num_sge);
        world(|world| world.receives.push(((*request).wr_id, list)));
    }
    0
}
