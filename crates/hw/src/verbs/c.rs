//! The declarations of `infiniband/verbs.h`. By default they come from `generated.rs`, which needs no installed
//! header. With the feature `rdma-sys` they come from rdma-sys, which generates them from the installed header.
//! `bindgen.sh` writes enumerations in the form of rdma-sys, so the same code compiles with both.
//!
//! rdma-sys links libibverbs and librdmacm. No code refers to their functions, so the linker drops both
//! (`--as-needed`), and the library is still opened at run time.

#[cfg(not(feature = "rdma-sys"))]
pub(super) use super::generated::*;
#[cfg(feature = "rdma-sys")]
pub(super) use rdma_sys::*;

// rdma-sys leaves `_ibv_query_gid_ex` out because of its name. Only the function's type is used here; the function
// is never linked.
#[cfg(feature = "rdma-sys")]
unsafe extern "C" {
    pub(super) fn _ibv_query_gid_ex(
        context: *mut ibv_context,
        port: u32,
        index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> std::ffi::c_int;
}

/// The unnamed union in `struct ibv_wc` and `struct ibv_send_wr`: immediate data, or an R_Key to invalidate.
#[cfg(not(feature = "rdma-sys"))]
macro_rules! word {
    ($of:expr) => {
        $of.__bindgen_anon_1
    };
}
#[cfg(feature = "rdma-sys")]
macro_rules! word {
    ($of:expr) => {
        $of.imm_data_invalidated_rkey_union
    };
}
pub(super) use word;
