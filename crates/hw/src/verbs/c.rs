//! The declarations of `infiniband/verbs.h`: our own, which need no header, or with the feature `rdma-sys` those that
//! this crate makes of the header that is installed. Both have one shape; `bindgen.sh` makes ours so.
//!
//! rdma-sys asks the linker for libibverbs and librdmacm. Nothing refers to their functions, so the linker leaves
//! both out (`--as-needed`), and the library is opened at run time all the same.

#[cfg(not(feature = "rdma-sys"))]
pub(super) use super::generated::*;
#[cfg(feature = "rdma-sys")]
pub(super) use rdma_sys::*;

// `_ibv_query_gid_ex`, which rdma-sys leaves out for its name. For its type alone: it is never linked with.
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

/// The union without a name in `struct ibv_wc` and `struct ibv_send_wr`: immediate data, or an R_Key to invalidate.
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
