//! A fake of libibverbs and of a device's driver: the operations of its contexts are functions of this module.
//!
//! The state is thread-local: each test has its own device and uses it from its own thread.

mod device;
mod objects;

use std::{
    cell::RefCell,
    collections::VecDeque,
    ffi::{c_int, c_uint},
    io::Write,
    os::unix::net::UnixStream,
    ptr,
    sync::Arc,
};

use nix::errno::Errno;

use crate::verbs::{
    Context, Library, c,
    ffi::{Symbols, Zeroed},
};

/// Calls that the fake recorded, and results for its next calls.
#[derive(Default)]
pub(super) struct World {
    /// Every creation and destruction of an object: `+pd`, `-pd`, ...
    pub(super) log: Vec<&'static str>,
    /// Names of the calls that fail, each with its error number.
    pub(super) fails: Vec<(&'static str, Errno)>,
    /// Attributes and mask of each modify.
    pub(super) modified: Vec<(c::ibv_qp_attr, c_int)>,
    /// Queue pair state that a query returns.
    pub(super) state: c_uint,
    /// Posted send requests, each with its scatter/gather list.
    pub(super) sends: Vec<(c::ibv_send_wr, Vec<c::ibv_sge>)>,
    pub(super) receives: Vec<(u64, Vec<c::ibv_sge>)>,
    /// Completions for the next polls.
    pub(super) completions: VecDeque<c::ibv_wc>,
    /// Events for the next reads.
    pub(super) async_events: VecDeque<c::ibv_async_event>,
    pub(super) acknowledged: usize,
    /// Whether the device list is empty.
    pub(super) no_device: bool,
    /// The other end of the context's event descriptor.
    pub(super) async_end: Option<UnixStream>,
    /// All queue pairs ever made, so that a test can put them into events.
    pub(super) qps: Vec<*mut c::ibv_qp>,
    /// Address of the last registered memory.
    pub(super) registered: usize,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::default());
}

pub(super) fn world<T>(body: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with(|world| body(&mut world.borrow_mut()))
}

/// Returns the error number with which `call` must fail. The call keeps failing until the test clears `fails`.
fn fails(call: &str) -> Option<c_int> {
    world(|world| {
        world
            .fails
            .iter()
            .find(|(name, _)| *name == call)
            .map(|(_, errno)| *errno as c_int)
    })
}

/// Returns a new zeroed object and logs it, or null with errno if `call` must fail.
fn make<T: Zeroed>(call: &'static str) -> *mut T {
    if let Some(errno) = fails(call) {
        Errno::set_raw(errno);
        return ptr::null_mut();
    }
    world(|world| world.log.push(call));
    Box::into_raw(Box::new(T::zeroed()))
}

/// Logs the destruction of an object and frees it, unless `call` must fail.
///
/// # Safety
///
/// The object came from `make`.
unsafe fn destroy<T>(call: &'static str, object: *mut T) -> c_int {
    world(|world| world.log.push(call));
    if let Some(errno) = fails(call) {
        return errno;
    }
    // SAFETY: the object came from a Box.
    drop(unsafe { Box::from_raw(object) });
    0
}

pub(super) fn make_readable(end: &mut Option<UnixStream>) {
    end.as_mut().unwrap().write_all(b"x").unwrap();
}

fn symbols() -> Symbols {
    Symbols {
        ibv_get_device_list: device::get_device_list,
        ibv_free_device_list: device::free_device_list,
        ibv_get_device_name: device::get_device_name,
        ibv_open_device: device::open_device,
        ibv_close_device: device::close_device,
        ibv_query_device: device::query_device,
        ibv_query_port: device::query_port,
        _ibv_query_gid_ex: device::query_gid_ex,
        ibv_get_async_event: device::get_async_event,
        ibv_ack_async_event: device::ack_async_event,
        ibv_alloc_pd: objects::alloc_pd,
        ibv_dealloc_pd: objects::dealloc_pd,
        ibv_reg_mr: objects::reg_mr,
        ibv_dereg_mr: objects::dereg_mr,
        ibv_create_ah: objects::create_ah,
        ibv_destroy_ah: objects::destroy_ah,
        ibv_create_cq: objects::create_cq,
        ibv_destroy_cq: objects::destroy_cq,
        ibv_create_qp: objects::create_qp,
        ibv_modify_qp: objects::modify_qp,
        ibv_query_qp: objects::query_qp,
        ibv_destroy_qp: objects::destroy_qp,
        _library: None,
    }
}

pub(super) fn library() -> Arc<Library> {
    Arc::new(Library { symbols: symbols() })
}

/// Opens the device and empties the log.
pub(super) fn opened() -> Context {
    let context = library().open_device("fake0").unwrap();
    world(|world| world.log.clear());
    context
}
