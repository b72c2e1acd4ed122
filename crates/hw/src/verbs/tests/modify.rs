//! Modifying and querying a queue pair, and the errors of a refusal.

use nix::errno::Errno;
use verbatim_wire::{
    AckTimeout, Mtu, Psn, QKey, Qpn, RnrTimer,
    verbs::{Access, AddressVector, Gid, QpAttributes, QpState, Service},
};

use crate::verbs::{VerbsError, c::ibv_qp_attr_mask as mask, modify::to_c};

use super::{bench, fake::world};

fn to_rtr() -> QpAttributes {
    QpAttributes {
        path_mtu: Some(Mtu::B1024),
        dest_qpn: Some(Qpn(0x12)),
        rq_psn: Some(Psn(0xabcdef)),
        max_dest_rd_atomic: Some(2),
        min_rnr_timer: Some(RnrTimer(31)),
        address: Some(AddressVector {
            dgid: Some(Gid([7; 16])),
            sgid_index: 1,
            hop_limit: 64,
            traffic_class: 9,
            flow_label: 0x12345,
            dlid: 5,
            sl: 3,
        }),
        ..QpAttributes::default()
    }
}

#[test]
fn modify_passes_exactly_given_attributes() {
    let bench = bench(Service::Rc);
    bench.qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
    bench.qp.modify(QpState::Rtr, &to_rtr()).unwrap();
    let modified = world(|world| std::mem::take(&mut world.modified));
    assert_eq!(modified[0].1, mask::IBV_QP_STATE.0.cast_signed());
    assert_eq!(modified[0].0.qp_state, 6);
    let (seen, set) = &modified[1];
    let expected = mask::IBV_QP_STATE.0
        | mask::IBV_QP_AV.0
        | mask::IBV_QP_PATH_MTU.0
        | mask::IBV_QP_DEST_QPN.0
        | mask::IBV_QP_RQ_PSN.0
        | mask::IBV_QP_MAX_DEST_RD_ATOMIC.0
        | mask::IBV_QP_MIN_RNR_TIMER.0;
    assert_eq!(*set, expected.cast_signed());
    assert_eq!((seen.qp_state, seen.path_mtu), (2, 3));
    assert_eq!(
        (seen.dest_qp_num, seen.rq_psn, seen.min_rnr_timer),
        (0x12, 0xabcdef, 31)
    );
    let address = seen.ah_attr;
    assert_eq!((address.dlid, address.sl, address.port_num), (5, 3, 1));
    assert_eq!((address.is_global, address.grh.sgid_index), (1, 1));
    assert_eq!((address.grh.flow_label, address.grh.hop_limit), (0x12345, 64));
    // SAFETY: both members of the union are sixteen plain bytes.
    assert_eq!(unsafe { address.grh.dgid.raw }, [7; 16]);
}

#[test]
fn each_attribute_has_its_own_bit() {
    type Change = fn(&mut QpAttributes);
    let changes: [(&str, Change); 15] = [
        ("pkey_index", |a| a.pkey_index = Some(1)),
        ("port", |a| a.port = Some(1)),
        ("access", |a| a.access = Some(Access::ALL)),
        ("qkey", |a| a.qkey = Some(QKey(1))),
        ("path_mtu", |a| a.path_mtu = Some(Mtu::B256)),
        ("dest_qpn", |a| a.dest_qpn = Some(Qpn(1))),
        ("rq_psn", |a| a.rq_psn = Some(Psn(1))),
        ("sq_psn", |a| a.sq_psn = Some(Psn(1))),
        ("max_dest_rd_atomic", |a| a.max_dest_rd_atomic = Some(1)),
        ("max_rd_atomic", |a| a.max_rd_atomic = Some(1)),
        ("min_rnr_timer", |a| a.min_rnr_timer = Some(RnrTimer(1))),
        ("address", |a| a.address = Some(AddressVector::default())),
        ("timeout", |a| a.timeout = Some(AckTimeout(1))),
        ("retry_cnt", |a| a.retry_cnt = Some(1)),
        ("rnr_retry", |a| a.rnr_retry = Some(1)),
    ];
    let mut all = 0;
    for (name, change) in changes {
        let mut one = QpAttributes::default();
        change(&mut one);
        let (_, set, names) = to_c(QpState::Rts, &one, 1);
        let set = set & !mask::IBV_QP_STATE.0;
        assert_eq!((set.count_ones(), set & all, names), (1, 0, vec![name]));
        all |= set;
    }
    let (rts, _, _) = to_c(
        QpState::Rts,
        &QpAttributes {
            sq_psn: Some(Psn(2)),
            timeout: Some(AckTimeout(3)),
            retry_cnt: Some(4),
            rnr_retry: Some(5),
            max_rd_atomic: Some(6),
            ..QpAttributes::default()
        },
        1,
    );
    assert_eq!((rts.sq_psn, rts.timeout, rts.retry_cnt), (2, 3, 4));
    assert_eq!((rts.rnr_retry, rts.max_rd_atomic), (5, 6));
}

#[test]
fn access_flags_match_request() {
    let flags = |access| {
        let access = Some(access);
        to_c(
            QpState::Init,
            &QpAttributes {
                access,
                ..QpAttributes::default()
            },
            1,
        )
        .0
        .qp_access_flags
    };
    assert_eq!(flags(Access::default()), 0);
    assert_eq!(flags(Access::LOCAL), 1);
    assert_eq!(flags(Access::ALL), 1 | 2 | 4 | 8);
}

#[test]
fn query_shows_state_and_psns() {
    let bench = bench(Service::Rc);
    let psns = QpAttributes {
        sq_psn: Some(Psn(7)),
        ..to_rtr()
    };
    bench.qp.modify(QpState::Rtr, &psns).unwrap();
    for (number, state) in (0..).zip(QpState::ALL) {
        world(|world| world.state = number);
        let seen = bench.qp.query().unwrap();
        assert_eq!((seen.state, seen.rq_psn, seen.sq_psn), (state, Psn(0xabcdef), Psn(7)));
    }
    world(|world| world.state = 7);
    let error = bench.qp.query().unwrap_err().to_string();
    assert!(error.contains("expected a state of 0 to 6, seen 7"), "{error}");
    world(|world| world.fails.push(("query_qp", Errno::EIO)));
    assert_eq!(bench.qp.query().unwrap_err().errno(), Some(Errno::EIO as i32));
}

#[test]
fn modify_error_names_state_and_attributes() {
    let refused = |errno, state| {
        let bench = bench(Service::Rc);
        world(|world| {
            world.fails = vec![("modify", errno)];
            world.state = state;
        });
        let error = bench.qp.modify(QpState::Rtr, &to_rtr()).unwrap_err();
        assert!(matches!(error, VerbsError::Modify { .. }));
        assert_eq!(error.errno(), Some(errno as i32));
        error.to_string()
    };
    let text = refused(Errno::EINVAL, 1);
    assert!(
        text.starts_with(
            "ibv_modify_qp of QP 0x11 on fake0 from INIT to RTR with path_mtu, dest_qpn, rq_psn, max_dest_rd_atomic, \
             min_rnr_timer, address failed (Invalid argument (os error 22)); expected a legal change of state"
        ),
        "{text}"
    );
    assert!(refused(Errno::ETIMEDOUT, 1).contains("not resolved to a MAC address"));
    assert!(refused(Errno::EIO, 9).contains("from a state that could not be read to RTR"));
}
