#!/bin/sh
# Writes src/verbs/generated.rs anew from infiniband/verbs.h. For maintainers: no build needs it.
#
# Needs bindgen (`cargo install bindgen-cli --version 0.72.1`), libclang (`pip install libclang`, then
# LIBCLANG_PATH=.../clang/native), gcc and libibverbs-dev. Made last with rdma-core 44 and libclang 18.1.1.
# bindgen writes an assertion for each size and offset into the output, so every build on this architecture compares
# them (a pthread_mutex_t, for one, is larger on others; there the declarations hold, the numbers do not).
set -eu
cd "$(dirname "$0")"

# Types that cross the boundary. What they mention comes along.
types='ibv_device_attr|ibv_port_attr|ibv_gid_entry|verbs_context|ibv_wc|ibv_qp_attr_mask|ibv_access_flags'
types="$types|ibv_send_flags|ibv_wc_flags|ibv_gid_type|ibv_send_wr|ibv_recv_wr|ibv_async_event"
functions='ibv_(get_device_list|free_device_list|get_device_name|get_device_guid|open_device|close_device)'
functions="$functions|ibv_query_(device|port|pkey)|_ibv_query_gid_ex|ibv_(get|ack)_async_event"
functions="$functions|ibv_(alloc|dealloc)_pd|ibv_(reg|dereg)_mr|ibv_(create|destroy)_(ah|comp_channel|cq|qp)"
functions="$functions|ibv_get_cq_event|ibv_ack_cq_events|ibv_(modify|query)_qp"
# Types that nothing here looks into.
opaque='ibv_(srq|mw|dm|td|xrcd|counters|ops_wr|ece|values_ex|mw_bind)|ibv_flow.*|ibv_rwq_.*|ibv_wq.*|ibv_.*_ex'
opaque="$opaque|ibv_(srq|td|wq|xrcd|counters|parent_domain|alloc_dm)_(init_)?attr|ibv_modify_cq_attr"
opaque="$opaque|ibv_counter_attach_attr|ibv_qp_rate_limit_attr|ibv_alloc_dm_attr"

# The pip package of libclang has no headers of its own (stddef.h): those of gcc serve.
{
	echo '// Written by bindgen.sh from infiniband/verbs.h of rdma-core. Do not edit: run bindgen.sh again.'
	echo
	bindgen "${HEADER:-/usr/include/infiniband/verbs.h}" \
		--rust-target 1.89 --rust-edition 2024 --default-visibility crate \
		--no-doc-comments --no-prepend-enum-name --disable-header-comment --merge-extern-blocks \
		--default-enum-style newtype --ctypes-prefix std::ffi \
		--blocklist-type 'pthread_.*|__pthread_.*|timespec|__.*64_t|__time_t|__syscall_slong_t' \
		--raw-line 'use libc::{pthread_cond_t, pthread_mutex_t};' \
		--allowlist-type "$types" --allowlist-function "$functions" --opaque-type "$opaque" \
		-- -isystem "$(gcc -print-file-name=include)" |
		sed "s/^#\\[allow(clippy::unnecessary_operation.*/#[cfg(target_arch = \"$(uname -m)\")]/"
} >src/verbs/generated.rs.new
mv src/verbs/generated.rs.new src/verbs/generated.rs
rustfmt --edition 2024 --config max_width=120 src/verbs/generated.rs
