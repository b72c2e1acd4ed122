//! The C interface of libibumad: layouts, and the functions that this crate calls.
//!
//! Source: `infiniband/umad.h`, rdma-core 44 (`IBUMAD_1.0` symbols, soname `libibumad.so.3`); `struct ib_user_mad` is
//! the kernel's `struct ib_user_mad_hdr`, ABI 5.
//!
//! # Contract
//!
//! - The function pointers of [`Symbols`] stay valid as long as the [`Symbols`] value lives, because the value owns
//!   the library handle. Every user holds the value in an `Arc`.
//! - Names passed in are NUL-terminated and outlive the call; the library keeps no pointer to them.
//! - A MAD buffer passed to `umad_send` or `umad_recv` has at least `umad_size()` plus the given length in bytes and is
//!   aligned to 8 bytes. No other code touches it during the call.
//! - One thread at a time uses a port id, between the `umad_open_port` that returned it and its `umad_close_port`.
//! - `umad_get_ca` fills memory that this crate owns. Only the port entries that it points to belong to the library;
//!   `umad_release_ca` frees them.

use std::ffi::{OsStr, c_char, c_int, c_long, c_uint, c_void};

use super::error::Unavailable;

/// Length of a device name with its NUL, in bytes (`UMAD_CA_NAME_LEN`).
pub(super) const NAME_LENGTH: usize = 20;
/// Largest number of devices that the library lists (`UMAD_MAX_DEVICES`).
pub(super) const MAX_DEVICES: usize = 32;
/// Entries of `umad_ca_t.ports` (`UMAD_CA_MAX_PORTS`).
pub(super) const MAX_PORTS: usize = 10;
/// Number of longs in a method mask of 128 bits (`16 / sizeof(long)`).
pub(super) const MASK_WORDS: usize = 16 / size_of::<c_long>();

/// `struct ib_mad_addr`: the destination or source of a MAD.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Address {
    /// Queue pair number, in network byte order.
    pub(super) qpn: u32,
    /// Q_Key, in network byte order.
    pub(super) qkey: u32,
    /// LID, in network byte order.
    pub(super) lid: u16,
    pub(super) sl: u8,
    pub(super) path_bits: u8,
    pub(super) grh_present: u8,
    pub(super) gid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) gid: [u8; 16],
    /// Flow label, in network byte order.
    pub(super) flow_label: u32,
    pub(super) pkey_index: u16,
    pub(super) reserved: [u8; 6],
}

/// `struct ib_user_mad` without its data: the header before the MAD in a buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    pub(super) agent_id: u32,
    pub(super) status: u32,
    pub(super) timeout_ms: u32,
    pub(super) retries: u32,
    pub(super) length: u32,
    pub(super) address: Address,
}

/// `umad_port_t`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CaPort {
    pub(super) ca_name: [c_char; NAME_LENGTH],
    pub(super) portnum: c_int,
    pub(super) base_lid: c_uint,
    pub(super) lmc: c_uint,
    pub(super) sm_lid: c_uint,
    pub(super) sm_sl: c_uint,
    pub(super) state: c_uint,
    pub(super) phys_state: c_uint,
    pub(super) rate: c_uint,
    /// In network byte order.
    pub(super) capmask: u32,
    /// In network byte order.
    pub(super) gid_prefix: u64,
    /// In network byte order.
    pub(super) port_guid: u64,
    pub(super) pkeys_size: c_uint,
    pub(super) pkeys: *mut u16,
    pub(super) link_layer: [c_char; NAME_LENGTH],
}

/// `umad_ca_t`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Ca {
    pub(super) ca_name: [c_char; NAME_LENGTH],
    pub(super) node_type: c_uint,
    pub(super) numports: c_int,
    pub(super) fw_ver: [c_char; 20],
    pub(super) ca_type: [c_char; 40],
    pub(super) hw_ver: [c_char; 20],
    /// In network byte order.
    pub(super) node_guid: u64,
    /// In network byte order.
    pub(super) system_guid: u64,
    pub(super) ports: [*mut CaPort; MAX_PORTS],
}

/// Checks sizes and offsets at compile time. A test of `crates/hw` with the feature `rdma-sys` also reads this
/// table: the C compiler compares the table with the header.
macro_rules! layouts {
    ($($type:ident $c_name:literal $size:literal { $($field:ident $offset:literal)* })*) => {
        // These sizes are for a C `long` of 64 bits.
        #[cfg(target_pointer_width = "64")]
        const _: () = {
            $(
                assert!(size_of::<$type>() == $size, $c_name);
                $(assert!(std::mem::offset_of!($type, $field) == $offset, $c_name);)*
            )*
        };
    };
}

layouts! {
    Address "ib_mad_addr_t" 44 {
        qpn 0 qkey 4 lid 8 sl 10 path_bits 11 grh_present 12 gid_index 13 hop_limit 14 traffic_class 15 gid 16
        flow_label 32 pkey_index 36
    }
    Header "ib_user_mad_t" 64 { agent_id 0 status 4 timeout_ms 8 retries 12 length 16 address 20 }
    CaPort "umad_port_t" 112 {
        ca_name 0 portnum 20 base_lid 24 lmc 28 sm_lid 32 sm_sl 36 state 40 phys_state 44 rate 48 capmask 52
        gid_prefix 56 port_guid 64 pkeys_size 72 pkeys 80 link_layer 88
    }
    Ca "umad_ca_t" 208 {
        ca_name 0 node_type 20 numports 24 fw_ver 28 ca_type 48 hw_ver 88 node_guid 112 system_guid 120 ports 128
    }
}

macro_rules! symbols {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of libibumad that this crate calls, and the library that holds them.
        #[derive(Debug)]
        pub(super) struct Symbols {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Keeps the functions mapped; `None` for the fakes of the unit tests.
            pub(super) _library: Option<libloading::Library>,
        }

        impl Symbols {
            /// Opens the library file `path` and resolves all functions. A file name without a directory is searched in
            /// the system's library directories.
            pub(super) fn load(path: &OsStr) -> Result<Symbols, Unavailable> {
                // SAFETY: loading runs the library's constructors; libibumad has none. Only tests pass a path that
                // names another library.
                let library = unsafe { libloading::Library::new(path) }
                    .map_err(|source| Unavailable::library(path, &source))?;
                $(
                    // SAFETY: the type is the prototype of this function in infiniband/umad.h, unchanged in every
                    // release with this soname.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                    }
                    .map_err(|source| Unavailable::symbol(path, stringify!($name), &source))?;
                )*
                Ok(Symbols { $($name,)* _library: Some(library) })
            }
        }
    };
}

symbols! {
    umad_init: fn() -> c_int;
    umad_get_cas_names: fn(*mut [c_char; NAME_LENGTH], c_int) -> c_int;
    umad_get_ca: fn(*const c_char, *mut Ca) -> c_int;
    umad_release_ca: fn(*mut Ca) -> c_int;
    umad_get_issm_path: fn(*const c_char, c_int, *mut c_char, c_int) -> c_int;
    umad_open_port: fn(*const c_char, c_int) -> c_int;
    umad_close_port: fn(c_int) -> c_int;
    umad_register: fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int;
    umad_unregister: fn(c_int, c_int) -> c_int;
    umad_size: fn() -> usize;
    umad_get_mad: fn(*mut c_void) -> *mut c_void;
    umad_status: fn(*mut c_void) -> c_int;
    umad_set_addr: fn(*mut c_void, c_int, c_int, c_int, c_int) -> c_int;
    umad_set_pkey: fn(*mut c_void, c_int) -> c_int;
    umad_send: fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int;
    umad_recv: fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int;
    umad_poll: fn(c_int, c_int) -> c_int;
}
