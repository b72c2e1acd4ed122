#!/bin/sh
# Regenerates src/verbs/generated.rs from infiniband/verbs.h. Only maintainers run this script; a build does not need
# it.
#
# Needs bindgen (`cargo install bindgen-cli --version 0.72.1`), libclang (libclang-dev, or `pip install libclang` and
# LIBCLANG_PATH=.../clang/native), gcc and libibverbs-dev. Last run with rdma-core 44 and libclang 14.0.6.
#
# Enumerations have the same form as in rdma-sys: modules of numbers, and newtypes for flags. For each size and offset,
# bindgen writes an assertion into the output. Every build on this architecture therefore checks them. On other
# architectures the declarations are valid but some sizes differ, for example the size of pthread_mutex_t.
set -eu
cd "$(dirname "$0")"

# Types of arguments and results. bindgen adds the types that these mention.
types='ibv_device_attr|ibv_port_attr|ibv_gid_entry|ibv_wc|ibv_qp_attr_mask|ibv_access_flags'
types="$types|ibv_send_flags|ibv_wc_flags|ibv_gid_type|ibv_send_wr|ibv_recv_wr|ibv_async_event"
functions='ibv_(get_device_list|free_device_list|get_device_name|open_device|close_device)'
functions="$functions|ibv_query_(device|port)|_ibv_query_gid_ex|ibv_(get|ack)_async_event"
functions="$functions|ibv_(alloc|dealloc)_pd|ibv_(reg|dereg)_mr|ibv_(create|destroy)_(ah|cq|qp)|ibv_(modify|query)_qp"
# Types whose fields no code here uses.
opaque='ibv_(srq|mw|dm|td|xrcd|wq|comp_channel|mw_bind|mw_bind_info|qp_open_attr)|ibv_.*_ex'
opaque="$opaque|ibv_srq_(init_)?attr|_ibv_device_ops|verbs_.*|_compat_.*"

# The pip package of libclang lacks system headers such as stddef.h: use those of gcc.
{
	echo '// Written by bindgen.sh from infiniband/verbs.h of rdma-core. Do not edit: run bindgen.sh again.'
	echo
	bindgen "${HEADER:-/usr/include/infiniband/verbs.h}" \
		--rust-target 1.89 --rust-edition 2024 --default-visibility crate \
		--no-doc-comments --no-prepend-enum-name --disable-header-comment --merge-extern-blocks \
		--default-enum-style moduleconsts --constified-enum ibv_gid_type \
		--newtype-enum 'ibv_(wc_flags|access_flags|send_flags|qp_attr_mask)' --ctypes-prefix std::ffi \
		--blocklist-type 'pthread_.*|__pthread_.*|timespec|__.*64_t|__time_t|__syscall_slong_t' \
		--raw-line 'use nix::libc::{pthread_cond_t, pthread_mutex_t};' \
		--allowlist-type "$types" --allowlist-function "$functions" --opaque-type "$opaque" \
		-- -isystem "$(gcc -print-file-name=include)" |
		sed "s/^#\\[allow(clippy::unnecessary_operation.*/#[cfg(target_arch = \"$(uname -m)\")]/"
} >src/verbs/generated.rs.new
mv src/verbs/generated.rs.new src/verbs/generated.rs
rustfmt --edition 2024 --config max_width=120 src/verbs/generated.rs
