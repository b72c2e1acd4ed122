//! The C side of libibverbs: the functions we call, and the half of it that `verbs.h` has inline.
//!
//! Source: `infiniband/verbs.h`, rdma-core 44 (soname `libibverbs.so.1`). The declarations are in `generated`; what is
//! written here by hand is compared with them by the compiler.
//!
//! # Contract
//!
//! - The function pointers of [`Symbols`] stay valid as long as the [`Symbols`] value lives, because it owns the
//!   library handle; every user holds it in an `Arc`.
//! - libibverbs may be called from several threads at once with the same object, as its manual says; an object is not
//!   used by anybody any more when it is destroyed. Our handles own their parents, so nothing outlives its parent.
//! - Names and attributes passed in outlive the call; the library keeps no pointer to them. Memory that is registered
//!   stays mapped until its deregistration came back.
//! - An event that was taken (`ibv_get_async_event`, `ibv_get_cq_event`) keeps the object that it names alive until it
//!   is acknowledged: destroying that object waits for the acknowledgement.
//! - Device drivers ("providers") fill in the table `ibv_context.ops`. The functions of the inline half are called
//!   through it. Where a provider left one out, that is an error, not a call.

use std::{
    ffi::{OsStr, c_char, c_int, c_uint, c_void},
    mem::offset_of,
};

use super::{error::VerbsError, generated as c};

/// What `ibv_context.abi_compat` holds when the context stands inside a `verbs_context`.
const EXTENDED: usize = usize::MAX;

macro_rules! symbols {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libibverbs that we call, and the library that holds them.
        #[derive(Debug)]
        pub(super) struct Symbols {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the functions mapped; absent for the stand-ins of the unit tests.
            pub(super) _library: Option<libloading::Library>,
        }

        impl Symbols {
            /// Opens the library file `path` (a file name is searched like any shared library) and resolves all.
            pub(super) fn load(path: &OsStr) -> Result<Symbols, VerbsError> {
                // SAFETY: loading runs the library's constructors; those of libibverbs touch nothing of ours, and a
                // path that names another library is the operator's choice (`Library::open_at` says so).
                let library = unsafe { libloading::Library::new(path) }
                    .map_err(|source| VerbsError::library(path, &source))?;
                $(
                    // SAFETY: the type is the prototype of this function in infiniband/verbs.h, see `prototypes`. A
                    // lookup without a version finds the library's default version, which that header describes.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                    }
                    .map_err(|source| VerbsError::symbol(path, stringify!($name), &source))?;
                )*
                Ok(Symbols { $($name,)* _library: Some(library) })
            }
        }

        /// Compares the types above with those of the generated declarations. Generic, so that it is checked and never
        /// compiled: nothing may refer to these functions at link time.
        #[allow(dead_code)]
        fn prototypes<T>(_never: T) {
            $(let _: unsafe extern "C" fn($($argument),*) $(-> $result)? = c::$name;)*
        }
    };
}

symbols! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut c::ibv_device;
    ibv_free_device_list: fn(*mut *mut c::ibv_device);
    ibv_get_device_name: fn(*mut c::ibv_device) -> *const c_char;
    ibv_get_device_guid: fn(*mut c::ibv_device) -> u64;
    ibv_open_device: fn(*mut c::ibv_device) -> *mut c::ibv_context;
    ibv_close_device: fn(*mut c::ibv_context) -> c_int;
    ibv_query_device: fn(*mut c::ibv_context, *mut c::ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut c::ibv_context, u8, *mut c::_compat_ibv_port_attr) -> c_int;
    ibv_query_pkey: fn(*mut c::ibv_context, u8, c_int, *mut u16) -> c_int;
    _ibv_query_gid_ex: fn(*mut c::ibv_context, u32, u32, *mut c::ibv_gid_entry, u32, usize) -> c_int;
    ibv_get_async_event: fn(*mut c::ibv_context, *mut c::ibv_async_event) -> c_int;
    ibv_ack_async_event: fn(*mut c::ibv_async_event);
    ibv_alloc_pd: fn(*mut c::ibv_context) -> *mut c::ibv_pd;
    ibv_dealloc_pd: fn(*mut c::ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut c::ibv_pd, *mut c_void, usize, c_int) -> *mut c::ibv_mr;
    ibv_dereg_mr: fn(*mut c::ibv_mr) -> c_int;
    ibv_create_ah: fn(*mut c::ibv_pd, *mut c::ibv_ah_attr) -> *mut c::ibv_ah;
    ibv_destroy_ah: fn(*mut c::ibv_ah) -> c_int;
    ibv_create_comp_channel: fn(*mut c::ibv_context) -> *mut c::ibv_comp_channel;
    ibv_destroy_comp_channel: fn(*mut c::ibv_comp_channel) -> c_int;
    ibv_get_cq_event: fn(*mut c::ibv_comp_channel, *mut *mut c::ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut c::ibv_cq, c_uint);
    ibv_create_cq: fn(*mut c::ibv_context, c_int, *mut c_void, *mut c::ibv_comp_channel, c_int) -> *mut c::ibv_cq;
    ibv_destroy_cq: fn(*mut c::ibv_cq) -> c_int;
    ibv_create_qp: fn(*mut c::ibv_pd, *mut c::ibv_qp_init_attr) -> *mut c::ibv_qp;
    ibv_modify_qp: fn(*mut c::ibv_qp, *mut c::ibv_qp_attr, c_int) -> c_int;
    ibv_query_qp: fn(*mut c::ibv_qp, *mut c::ibv_qp_attr, c_int, *mut c::ibv_qp_init_attr) -> c_int;
    ibv_destroy_qp: fn(*mut c::ibv_qp) -> c_int;
}

impl Symbols {
    /// `ibv_query_port`. The exported function of that name knows a shorter structure (it leaves out what came after
    /// `link_layer`) and serves where the provider has no newer one.
    ///
    /// # Safety
    ///
    /// `context` is open.
    pub(super) unsafe fn query_port(
        &self,
        context: *mut c::ibv_context,
        port: u8,
        attributes: &mut c::ibv_port_attr,
    ) -> c_int {
        // SAFETY: the context is open, so that it and what it says it stands in are there; the structure is ours and
        // as long as we say, or longer than the older function fills.
        unsafe {
            match extended_query_port(context) {
                Some(query) => query(context, port, attributes, size_of::<c::ibv_port_attr>()),
                None => (self.ibv_query_port)(context, port, (&raw mut *attributes).cast()),
            }
        }
    }
}

type QueryPort = unsafe extern "C" fn(*mut c::ibv_context, u8, *mut c::ibv_port_attr, usize) -> c_int;

/// The provider's own `query_port`, if the context is an extended one that reaches back as far as that field.
///
/// # Safety
///
/// `context` is open; if its `abi_compat` says so, it is the last field of a `verbs_context` whose `sz` tells how much
/// of that structure stands before it.
unsafe fn extended_query_port(context: *mut c::ibv_context) -> Option<QueryPort> {
    let before = offset_of!(c::verbs_context, context);
    // SAFETY: an open context.
    if unsafe { (*context).abi_compat }.addr() != EXTENDED {
        return None;
    }
    let whole: *mut c::verbs_context = context.wrapping_byte_sub(before).cast();
    // SAFETY: an extended context always has `sz` right before it; `query_port` is there when `sz` covers it.
    unsafe {
        let reaches_back = (*whole).sz >= size_of::<c::verbs_context>() - offset_of!(c::verbs_context, query_port);
        if reaches_back { (*whole).query_port } else { None }
    }
}

/// `ibv_poll_cq`: takes up to `room.len()` completions. `None` if the provider cannot.
///
/// # Safety
///
/// `cq` exists.
pub(super) unsafe fn poll_cq(cq: *mut c::ibv_cq, room: &mut [c::ibv_wc]) -> Option<c_int> {
    let count = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
    // SAFETY: the queue and with it its context exist; the array has that many entries.
    unsafe {
        (*(*cq).context)
            .ops
            .poll_cq
            .map(|poll| poll(cq, count, room.as_mut_ptr()))
    }
}

/// `ibv_req_notify_cq`. `None` if the provider cannot.
///
/// # Safety
///
/// `cq` exists.
pub(super) unsafe fn req_notify_cq(cq: *mut c::ibv_cq, solicited_only: bool) -> Option<c_int> {
    // SAFETY: the queue and with it its context exist.
    unsafe {
        (*(*cq).context)
            .ops
            .req_notify_cq
            .map(|notify| notify(cq, solicited_only.into()))
    }
}

/// `ibv_post_send` of one work request. `None` if the provider cannot.
///
/// # Safety
///
/// `qp` exists; the scatter/gather list of `request`, its address handle and its memory exist.
pub(super) unsafe fn post_send(qp: *mut c::ibv_qp, request: &mut c::ibv_send_wr) -> Option<c_int> {
    let mut refused = std::ptr::null_mut();
    // SAFETY: the queue pair and with it its context exist; the request is read before the call returns.
    unsafe {
        (*(*qp).context)
            .ops
            .post_send
            .map(|post| post(qp, request, &raw mut refused))
    }
}

/// `ibv_post_recv` of one work request. `None` if the provider cannot.
///
/// # Safety
///
/// `qp` exists; the scatter/gather list of `request` and its memory exist.
pub(super) unsafe fn post_recv(qp: *mut c::ibv_qp, request: &mut c::ibv_recv_wr) -> Option<c_int> {
    let mut refused = std::ptr::null_mut();
    // SAFETY: as in post_send.
    unsafe {
        (*(*qp).context)
            .ops
            .post_recv
            .map(|post| post(qp, request, &raw mut refused))
    }
}

/// C structures of plain numbers, arrays, nullable pointers and unions of these.
///
/// # Safety
///
/// All-zero bytes are a value of the type.
pub(super) unsafe trait Zeroed: Sized {
    /// The value of all-zero bytes, padding included.
    fn zeroed() -> Self {
        // SAFETY: the trait's promise.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ident)*) => {
        // SAFETY: numbers, arrays, raw pointers, optional function pointers, and pthread objects, which are plain
        // structures of numbers and pointers too.
        $(unsafe impl Zeroed for c::$name {})*
    };
}

zeroed! {
    ibv_device_attr ibv_port_attr ibv_gid_entry ibv_async_event ibv_ah_attr ibv_wc ibv_send_wr ibv_recv_wr
    ibv_qp_attr ibv_qp_init_attr
}
#[cfg(test)]
zeroed! { ibv_device ibv_context verbs_context ibv_pd ibv_mr ibv_ah ibv_comp_channel ibv_cq ibv_qp }

/// The error behind the return value of a function that hands back an error number, or -1 with errno.
pub(super) fn failure(code: c_int) -> std::io::Error {
    match code {
        -1 => std::io::Error::last_os_error(),
        code => std::io::Error::from_raw_os_error(code.saturating_abs()),
    }
}
