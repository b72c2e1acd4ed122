//! Loading the library when it is absent, wrong or installed, and the names of values.

use std::ffi::OsStr;

use verbatim_wire::{
    Mtu,
    verbs::{EventKind, QpAttributes, QpState, WcOpcode, WcStatus},
};

use crate::verbs::{Library, VerbsError, c, modify::to_c};

#[test]
fn absent_library_error_names_package() {
    let error = Library::load(OsStr::new("/nonexistent/libibverbs.so.1")).unwrap_err();
    assert!(matches!(error, VerbsError::Library { .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("verbs unavailable: the library /nonexistent/libibverbs.so.1 could not be loaded ("),
        "{text}"
    );
    assert!(text.contains("cannot open shared object file"), "{text}");
    assert!(text.contains("apt-get install libibverbs1 ibverbs-providers"), "{text}");
}

#[test]
fn wrong_library_error_names_function() {
    let error = Library::load(OsStr::new("libc.so.6")).unwrap_err();
    assert!(
        matches!(
            error,
            VerbsError::Symbol {
                symbol: "ibv_get_device_list",
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("has no function ibv_get_device_list"),
        "{error}"
    );
}

/// If the library is installed, it has every function, and it lists devices or returns an error with the remedy.
#[test]
fn installed_library_has_all_functions() {
    let library = match Library::open() {
        Ok(library) => library,
        Err(error @ VerbsError::Library { .. }) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("SKIPPED: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    match library.devices() {
        Ok(_) => {
            let error = library.open_device("no such device").unwrap_err();
            assert!(matches!(error, VerbsError::NoDevice { .. }), "{error:?}");
        }
        Err(error) => assert!(error.to_string().contains("modprobe ib_uverbs"), "{error}"),
    }
}

#[test]
fn values_match_header() {
    macro_rules! same {
        ($($ours:ident $theirs:ident: $($name:ident $c_name:ident),*;)*) => {
            $($(assert_eq!($ours::$name.0, c::$theirs::$c_name as u32, stringify!($c_name));)*)*
        };
    }
    same! {
        WcStatus ibv_wc_status: SUCCESS IBV_WC_SUCCESS, LOC_LEN_ERR IBV_WC_LOC_LEN_ERR,
            LOC_QP_OP_ERR IBV_WC_LOC_QP_OP_ERR, LOC_PROT_ERR IBV_WC_LOC_PROT_ERR, WR_FLUSH_ERR IBV_WC_WR_FLUSH_ERR,
            BAD_RESP_ERR IBV_WC_BAD_RESP_ERR, REM_INV_REQ_ERR IBV_WC_REM_INV_REQ_ERR,
            REM_ACCESS_ERR IBV_WC_REM_ACCESS_ERR, REM_OP_ERR IBV_WC_REM_OP_ERR, RETRY_EXC_ERR IBV_WC_RETRY_EXC_ERR,
            RNR_RETRY_EXC_ERR IBV_WC_RNR_RETRY_EXC_ERR, FATAL_ERR IBV_WC_FATAL_ERR,
            TM_RNDV_INCOMPLETE IBV_WC_TM_RNDV_INCOMPLETE;
        WcOpcode ibv_wc_opcode: SEND IBV_WC_SEND, RDMA_WRITE IBV_WC_RDMA_WRITE, RDMA_READ IBV_WC_RDMA_READ,
            COMP_SWAP IBV_WC_COMP_SWAP, FETCH_ADD IBV_WC_FETCH_ADD, TSO IBV_WC_TSO, ATOMIC_WRITE IBV_WC_ATOMIC_WRITE,
            RECV IBV_WC_RECV, RECV_RDMA_WITH_IMM IBV_WC_RECV_RDMA_WITH_IMM;
        EventKind ibv_event_type: CQ_ERR IBV_EVENT_CQ_ERR, QP_FATAL IBV_EVENT_QP_FATAL,
            QP_REQ_ERR IBV_EVENT_QP_REQ_ERR, QP_ACCESS_ERR IBV_EVENT_QP_ACCESS_ERR, COMM_EST IBV_EVENT_COMM_EST,
            SQ_DRAINED IBV_EVENT_SQ_DRAINED, DEVICE_FATAL IBV_EVENT_DEVICE_FATAL, PORT_ERR IBV_EVENT_PORT_ERR,
            QP_LAST_WQE_REACHED IBV_EVENT_QP_LAST_WQE_REACHED, WQ_FATAL IBV_EVENT_WQ_FATAL;
    }
    assert_eq!(u32::from(Mtu::B256.0), c::ibv_mtu::IBV_MTU_256);
    assert_eq!(u32::from(Mtu::B4096.0), c::ibv_mtu::IBV_MTU_4096);
    let states: Vec<_> = QpState::ALL
        .iter()
        .map(|state| to_c(*state, &QpAttributes::default(), 1).0.qp_state)
        .collect();
    assert_eq!(states, [0, 1, 2, 3, 4, 5, 6]);
}
