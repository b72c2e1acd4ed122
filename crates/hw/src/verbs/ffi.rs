//! The C interface of libibverbs: exported functions that this crate calls, and functions that `verbs.h` defines
//! inline.
//!
//! Source: `infiniband/verbs.h`, rdma-core 44 (soname `libibverbs.so.1`). The declarations are in `generated`; the
//! compiler compares the handwritten types of this file with them.
//!
//! # Contract
//!
//! - The function pointers of [`Symbols`] stay valid as long as the [`Symbols`] value lives, because it owns the
//!   library handle. Every user holds it in an `Arc`.
//! - libibverbs may be called from several threads at once with the same object, as its manual says. No thread may use
//!   an object that is destroyed. The handles of this crate own their parents, so no object outlives its parent.
//! - Names and attributes passed in outlive the call; the library keeps no pointer to them. Registered memory stays
//!   mapped until its deregistration has returned.
//! - An event from `ibv_get_async_event` keeps the object that it names alive until the event is acknowledged:
//!   destroying that object waits for the acknowledgement.
//! - Device drivers ("providers") fill in the table `ibv_context.ops`. The inline functions are called through this
//!   table. If a provider lacks a function, the handle returns an error instead of calling it.

use std::ffi::{OsStr, c_char, c_int, c_void};

use super::{c, error::VerbsError};

macro_rules! symbols {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libibverbs that this crate calls, and the library that holds them.
        #[derive(Debug)]
        pub(super) struct Symbols {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the functions mapped; `None` for the fake library of the unit tests.
            pub(super) _library: Option<libloading::Library>,
        }

        impl Symbols {
            /// Opens the library file `path` and resolves all functions. A file name without a directory is searched in
            /// the system's library directories.
            pub(super) fn load(path: &OsStr) -> Result<Symbols, VerbsError> {
                // SAFETY: loading runs the library's constructors; those of libibverbs do not touch our data. Only
                // tests pass a path that names another library.
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

        /// Compares the types above with the generated declarations. The function is generic, so that the compiler
        /// checks it without generating code: the library's functions must not be referenced at link time.
        #[expect(dead_code, reason = "the compiler's comparison is its use")]
        fn prototypes<T>(_never: T) {
            $(let _: unsafe extern "C" fn($($argument),*) $(-> $result)? = c::$name;)*
        }
    };
}

symbols! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut c::ibv_device;
    ibv_free_device_list: fn(*mut *mut c::ibv_device);
    ibv_get_device_name: fn(*mut c::ibv_device) -> *const c_char;
    ibv_open_device: fn(*mut c::ibv_device) -> *mut c::ibv_context;
    ibv_close_device: fn(*mut c::ibv_context) -> c_int;
    ibv_query_device: fn(*mut c::ibv_context, *mut c::ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut c::ibv_context, u8, *mut c::_compat_ibv_port_attr) -> c_int;
    _ibv_query_gid_ex: fn(*mut c::ibv_context, u32, u32, *mut c::ibv_gid_entry, u32, usize) -> c_int;
    ibv_get_async_event: fn(*mut c::ibv_context, *mut c::ibv_async_event) -> c_int;
    ibv_ack_async_event: fn(*mut c::ibv_async_event);
    ibv_alloc_pd: fn(*mut c::ibv_context) -> *mut c::ibv_pd;
    ibv_dealloc_pd: fn(*mut c::ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut c::ibv_pd, *mut c_void, usize, c_int) -> *mut c::ibv_mr;
    ibv_dereg_mr: fn(*mut c::ibv_mr) -> c_int;
    ibv_create_ah: fn(*mut c::ibv_pd, *mut c::ibv_ah_attr) -> *mut c::ibv_ah;
    ibv_destroy_ah: fn(*mut c::ibv_ah) -> c_int;
    ibv_create_cq: fn(*mut c::ibv_context, c_int, *mut c_void, *mut c::ibv_comp_channel, c_int) -> *mut c::ibv_cq;
    ibv_destroy_cq: fn(*mut c::ibv_cq) -> c_int;
    ibv_create_qp: fn(*mut c::ibv_pd, *mut c::ibv_qp_init_attr) -> *mut c::ibv_qp;
    ibv_modify_qp: fn(*mut c::ibv_qp, *mut c::ibv_qp_attr, c_int) -> c_int;
    ibv_query_qp: fn(*mut c::ibv_qp, *mut c::ibv_qp_attr, c_int, *mut c::ibv_qp_init_attr) -> c_int;
    ibv_destroy_qp: fn(*mut c::ibv_qp) -> c_int;
}

/// Takes up to `room.len()` completions by `ibv_poll_cq`. Returns `None` if the provider lacks the function.
///
/// # Safety
///
/// `cq` must point to an existing completion queue.
pub(super) unsafe fn poll_cq(cq: *mut c::ibv_cq, room: &mut [c::ibv_wc]) -> Option<c_int> {
    let count = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
    // SAFETY: the queue and its context exist; the array has that many entries.
    unsafe {
        (*(*cq).context)
            .ops
            .poll_cq
            .map(|poll| poll(cq, count, room.as_mut_ptr()))
    }
}

/// Posts one work request by `ibv_post_send`. Returns `None` if the provider lacks the function.
///
/// # Safety
///
/// `qp` must point to an existing queue pair. The scatter/gather list of `request`, its address handle and its memory
/// must exist.
pub(super) unsafe fn post_send(qp: *mut c::ibv_qp, request: &mut c::ibv_send_wr) -> Option<c_int> {
    let mut refused = std::ptr::null_mut();
    // SAFETY: the queue pair and its context exist; the request is read before the call returns.
    unsafe {
        (*(*qp).context)
            .ops
            .post_send
            .map(|post| post(qp, request, &raw mut refused))
    }
}

/// Posts one work request by `ibv_post_recv`. Returns `None` if the provider lacks the function.
///
/// # Safety
///
/// `qp` must point to an existing queue pair. The scatter/gather list of `request` and its memory must exist.
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

/// C structures of plain numbers, arrays, nullable pointers, and unions of these.
///
/// # Safety
///
/// All-zero bytes must be a valid value of the type.
pub(super) unsafe trait Zeroed: Sized {
    /// Returns the value of all-zero bytes, including padding.
    fn zeroed() -> Self {
        // SAFETY: the contract of the trait.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ident)*) => {
        // SAFETY: these types consist of numbers, arrays, raw pointers, optional function pointers, and pthread
        // objects, which are plain structures of numbers and pointers.
        $(unsafe impl Zeroed for c::$name {})*
    };
}

zeroed! {
    ibv_device_attr ibv_port_attr ibv_gid_entry ibv_async_event ibv_ah_attr ibv_wc ibv_send_wr ibv_recv_wr
    ibv_qp_attr ibv_qp_init_attr
}
#[cfg(test)]
zeroed! { ibv_device ibv_context ibv_pd ibv_mr ibv_ah ibv_cq ibv_qp }

/// Converts the result of a failed call: an error number, or -1 with the number in errno.
pub(super) fn failure(code: c_int) -> std::io::Error {
    match code {
        -1 => std::io::Error::last_os_error(),
        code => std::io::Error::from_raw_os_error(code.saturating_abs()),
    }
}
