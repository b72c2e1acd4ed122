//! Fakes of the library's functions.
//!
//! Fakes that run on the test's own thread have thread-local state. Fakes that run on the helper thread choose
//! their behaviour by the device's name.

use std::{
    cell::RefCell,
    collections::VecDeque,
    ffi::{CStr, c_char, c_int, c_long, c_void},
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nix::errno::Errno;

use crate::{
    Library, MAD_LENGTH,
    ffi::{Ca, CaPort, Header, NAME_LENGTH, Symbols},
};

/// The result of the next poll.
#[derive(Clone, Copy, Debug)]
pub(super) enum Poll {
    Data,
    Nothing,
    Errno(i32),
}

#[derive(Default)]
pub(super) struct World {
    pub(super) polls: VecDeque<Poll>,
    /// Status, LID and MAD of each arrival.
    pub(super) arrivals: VecDeque<(u32, u16, [u8; MAD_LENGTH])>,
    /// GID of the sender of the arrivals.
    pub(super) gid: Option<[u8; 16]>,
    /// Agent, timeout, header and MAD of each send.
    pub(super) sent: Vec<(i32, i32, Header, [u8; MAD_LENGTH])>,
    pub(super) send_errno: Option<i32>,
    pub(super) recv_errno: Option<i32>,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::default());
}

pub(super) fn world<T>(body: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with(|world| body(&mut world.borrow_mut()))
}

/// Blocks the opening of the device `slow` until the guard is dropped.
pub(super) fn slow() -> MutexGuard<'static, ()> {
    static SLOW: Mutex<()> = Mutex::new(());
    SLOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serialises tests that open a port, because one test blocks all opens of the process.
pub(super) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn write_name(place: &mut [c_char], name: &str) {
    for (to, from) in place.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
}

unsafe extern "C" fn init() -> c_int {
    0
}

unsafe extern "C" fn get_cas_names(names: *mut [c_char; NAME_LENGTH], _max: c_int) -> c_int {
    for (index, name) in ["sound", "refused", "no_module", "slow", "no_classes", "roce"]
        .iter()
        .enumerate()
    {
        // SAFETY: the caller gave space for 32 names.
        write_name(unsafe { &mut *names.add(index) }, name);
    }
    6
}

unsafe extern "C" fn get_ca(name: *const c_char, ca: *mut Ca) -> c_int {
    // SAFETY: by the contract the name is NUL-terminated and the memory writable.
    let (name, ca) = unsafe { (CStr::from_ptr(name), &mut *ca) };
    write_name(&mut ca.ca_name, name.to_str().unwrap());
    write_name(&mut ca.fw_ver, "1.2.3");
    ca.node_guid = 0x0102_u64.to_be();
    // SAFETY: all-zero bytes are a valid CaPort.
    let mut port: Box<CaPort> = Box::new(unsafe { std::mem::zeroed() });
    port.portnum = 1;
    port.base_lid = 7;
    port.state = 4;
    ca.ports = [ptr::null_mut(); 10];
    ca.ports[1] = Box::into_raw(port);
    0
}

unsafe extern "C" fn release_ca(ca: *mut Ca) -> c_int {
    // SAFETY: filled by get_ca above.
    drop(unsafe { Box::from_raw((*ca).ports[1]) });
    0
}

unsafe extern "C" fn get_issm_path(name: *const c_char, _port: c_int, path: *mut c_char, max: c_int) -> c_int {
    // SAFETY: by the contract the name is NUL-terminated and `path` has `max` bytes.
    let (name, path) = unsafe { (CStr::from_ptr(name), std::slice::from_raw_parts_mut(path, max as usize)) };
    if name == c"no_module" {
        return -(Errno::EINVAL as i32);
    }
    write_name(path, "/dev/infiniband/issm3");
    0
}

unsafe extern "C" fn open_port(name: *const c_char, port: c_int) -> c_int {
    // SAFETY: by the contract the name is NUL-terminated.
    match unsafe { CStr::from_ptr(name) }.to_str().unwrap() {
        "sound" | "roce" | "no_classes" if port == 1 => 1024,
        "slow" => {
            drop(slow());
            1024
        }
        "refused" => {
            Errno::EACCES.set();
            -(Errno::EIO as i32)
        }
        _ => {
            Errno::ENOENT.set();
            -(Errno::EINVAL as i32)
        }
    }
}

unsafe extern "C" fn close_port(_id: c_int) -> c_int {
    0
}

/// Registers every class but 0x0a. Traps are refused for class 0x01, as if a subnet manager received them.
unsafe extern "C" fn register(_id: c_int, class: c_int, version: c_int, rmpp: u8, mask: *mut c_long) -> c_int {
    // SAFETY: by the contract the mask has 128 bits.
    let traps = unsafe { *mask } & (1 << 5) != 0;
    assert_eq!((version, rmpp), (if class == 3 { 2 } else { 1 }, 0));
    if class == 0x0a || (class == 0x01 && traps) {
        Errno::EINVAL.set();
        return -(Errno::EPERM as i32);
    }
    class
}

pub(super) unsafe extern "C" fn register_general_only(
    id: c_int,
    class: c_int,
    version: c_int,
    rmpp: u8,
    mask: *mut c_long,
) -> c_int {
    if class == 0x01 || class == 0x81 {
        Errno::EINVAL.set();
        return -(Errno::EPERM as i32);
    }
    // SAFETY: the arguments are the caller's own.
    unsafe { register(id, class, version, rmpp, mask) }
}

pub(super) unsafe extern "C" fn register_none(_: c_int, _: c_int, _: c_int, _: u8, _: *mut c_long) -> c_int {
    Errno::EINVAL.set();
    -(Errno::EPERM as i32)
}

unsafe extern "C" fn unregister(_id: c_int, _agent: c_int) -> c_int {
    0
}

unsafe extern "C" fn size() -> usize {
    64
}

unsafe extern "C" fn get_mad(umad: *mut c_void) -> *mut c_void {
    umad.wrapping_byte_add(64)
}

unsafe extern "C" fn status(umad: *mut c_void) -> c_int {
    // SAFETY: the buffer has a header.
    unsafe { (*umad.cast::<Header>()).status as c_int }
}

unsafe extern "C" fn set_addr(umad: *mut c_void, dlid: c_int, qpn: c_int, sl: c_int, qkey: c_int) -> c_int {
    // SAFETY: the buffer has a header.
    let address = unsafe { &mut (*umad.cast::<Header>()).address };
    address.lid = (dlid as u16).to_be();
    address.qpn = (qpn as u32).to_be();
    address.qkey = (qkey as u32).to_be();
    address.sl = sl as u8;
    0
}

unsafe extern "C" fn set_pkey(umad: *mut c_void, index: c_int) -> c_int {
    // SAFETY: the buffer has a header.
    unsafe { (*umad.cast::<Header>()).address.pkey_index = index as u16 };
    0
}

unsafe extern "C" fn send(
    _id: c_int,
    agent: c_int,
    umad: *mut c_void,
    length: c_int,
    timeout: c_int,
    retries: c_int,
) -> c_int {
    assert_eq!((length, retries), (256, 0));
    if let Some(errno) = world(|world| world.send_errno) {
        Errno::set_raw(errno);
        return -(Errno::EIO as i32);
    }
    // SAFETY: by the contract the buffer has a header and a MAD.
    let (header, mad) = unsafe { (*umad.cast(), *umad.byte_add(64).cast()) };
    world(|world| world.sent.push((agent, timeout, header, mad)));
    0
}

unsafe extern "C" fn recv(_id: c_int, umad: *mut c_void, length: *mut c_int, timeout: c_int) -> c_int {
    assert_eq!(timeout, 0);
    if let Some(errno) = world(|world| world.recv_errno) {
        return -errno;
    }
    let Some((status, lid, mad)) = world(|world| world.arrivals.pop_front()) else {
        return -(Errno::EAGAIN as i32);
    };
    // SAFETY: by the contract the buffer has a header and a MAD.
    unsafe {
        let header = umad.cast::<Header>();
        *header = Header {
            status,
            ..Header::default()
        };
        (*header).address.lid = lid.to_be();
        if let Some(gid) = world(|world| world.gid) {
            (*header).address.grh_present = 1;
            (*header).address.gid = gid;
        }
        *umad.byte_add(64).cast() = mad;
        if status != 0 {
            *length = 24;
        }
    }
    1
}

unsafe extern "C" fn poll(_id: c_int, timeout: c_int) -> c_int {
    assert!(timeout > 0);
    match world(|world| world.polls.pop_front()).unwrap_or(Poll::Nothing) {
        Poll::Data => 0,
        Poll::Nothing => {
            std::thread::sleep(Duration::from_millis(timeout as u64));
            -(Errno::ETIMEDOUT as i32)
        }
        Poll::Errno(errno) => {
            Errno::set_raw(errno);
            -(Errno::EIO as i32)
        }
    }
}

pub(super) fn symbols() -> Symbols {
    Symbols {
        umad_init: init,
        umad_get_cas_names: get_cas_names,
        umad_get_ca: get_ca,
        umad_release_ca: release_ca,
        umad_get_issm_path: get_issm_path,
        umad_open_port: open_port,
        umad_close_port: close_port,
        umad_register: register,
        umad_unregister: unregister,
        umad_size: size,
        umad_get_mad: get_mad,
        umad_status: status,
        umad_set_addr: set_addr,
        umad_set_pkey: set_pkey,
        umad_send: send,
        umad_recv: recv,
        umad_poll: poll,
        _library: None,
    }
}

pub(super) fn library() -> Library {
    Library {
        symbols: Arc::new(symbols()),
    }
}
