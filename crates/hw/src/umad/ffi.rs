//! The C side of libibumad: layouts and the functions we call.
//!
//! Source: `infiniband/umad.h`, rdma-core 44 (`IBUMAD_1.0` symbols, soname `libibumad.so.3`); `struct ib_user_mad` is
//! the kernel's `struct ib_user_mad_hdr`, ABI 5.
//!
//! # Contract
//!
//! - The function pointers of [`Symbols`] stay valid as long as the [`Symbols`] value lives, because it owns the
//!   library handle; every user holds it in an `Arc`.
//! - Names passed in are NUL-terminated and outlive the call; the library keeps no pointer into our memory.
//! - A MAD buffer passed to `umad_send` or `umad_recv` is at least `umad_size()` plus the length given, aligned to
//!   8 bytes, and not touched by anybody else during the call.
//! - A port id is used by one thread at a time, between the `umad_open_port` that returned it and its
//!   `umad_close_port`.
//! - `umad_get_ca` fills memory that we own; only the port entries behind it belong to the library and are given back
//!   with `umad_release_ca`.

use std::ffi::{OsStr, c_char, c_int, c_long, c_uint, c_void};

use super::error::Unavailable;

/// Length of a device name with its NUL (`UMAD_CA_NAME_LEN`).
pub(super) const NAME_LENGTH: usize = 20;
/// Devices that the library can enumerate (`UMAD_MAX_DEVICES`).
pub(super) const MAX_DEVICES: usize = 32;
/// Entries of `umad_ca_t.ports` (`UMAD_CA_MAX_PORTS`).
pub(super) const MAX_PORTS: usize = 10;
/// Longs in a method mask: 128 bits (`16 / sizeof(long)`).
pub(super) const MASK_WORDS: usize = 16 / size_of::<c_long>();

/// `struct ib_mad_addr`: where a MAD goes to or came from. Fields marked BE are in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Address {
    /// Queue pair number, BE.
    pub(super) qpn: u32,
    /// Queue key, BE.
    pub(super) qkey: u32,
    /// LID, BE.
    pub(super) lid: u16,
    pub(super) sl: u8,
    pub(super) path_bits: u8,
    pub(super) grh_present: u8,
    pub(super) gid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) gid: [u8; 16],
    /// Flow label, BE.
    pub(super) flow_label: u32,
    pub(super) pkey_index: u16,
    pub(super) reserved: [u8; 6],
}

/// `struct ib_user_mad` without its data: what stands before the MAD in a buffer.
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
    /// BE.
    pub(super) capmask: u32,
    /// BE.
    pub(super) gid_prefix: u64,
    /// BE.
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
    /// BE.
    pub(super) node_guid: u64,
    /// BE.
    pub(super) system_guid: u64,
    pub(super) ports: [*mut CaPort; MAX_PORTS],
}

// The layouts as the C compiler lays them out, checked where a C `long` has 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Address>() == 44 && size_of::<Header>() == 64);
    assert!(offset_of!(Address, lid) == 8 && offset_of!(Address, sl) == 10);
    assert!(offset_of!(Address, grh_present) == 12 && offset_of!(Address, gid) == 16);
    assert!(offset_of!(Address, gid_index) == 13 && offset_of!(Address, traffic_class) == 15);
    assert!(offset_of!(Address, flow_label) == 32 && offset_of!(Address, pkey_index) == 36);
    assert!(size_of::<CaPort>() == 112 && offset_of!(CaPort, capmask) == 52);
    assert!(offset_of!(CaPort, gid_prefix) == 56 && offset_of!(CaPort, port_guid) == 64);
    assert!(offset_of!(CaPort, pkeys) == 80 && offset_of!(CaPort, link_layer) == 88);
    assert!(size_of::<Ca>() == 208 && offset_of!(Ca, fw_ver) == 28);
    assert!(offset_of!(Ca, hw_ver) == 88 && offset_of!(Ca, node_guid) == 112);
    assert!(offset_of!(Ca, ports) == 128);
};

macro_rules! symbols {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of libibumad that we call, and the library that holds them.
        #[derive(Debug)]
        pub(super) struct Symbols {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Keeps the functions mapped; absent for the stand-ins of the unit tests.
            pub(super) _library: Option<libloading::Library>,
        }

        impl Symbols {
            /// Opens the library file `path` (a file name is searched like any shared library) and resolves all.
            pub(super) fn load(path: &OsStr) -> Result<Symbols, Unavailable> {
                // SAFETY: loading runs the library's constructors; libibumad has none, and a path that names another
                // library is for tests alone.
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
