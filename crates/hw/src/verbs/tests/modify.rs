//! Modifying and querying a queue pair, and what a refusal says.

use crate::verbs::{
    AccessFlags, AddressVector, AlternatePath, Diagnosis, GlobalRoute, MigrationState, Modify, Mtu, QpState, QpType,
    VerbsError,
    generated::ibv_qp_attr_mask as mask,
    transitions::{Attributes, attributes},
};

use super::{bench, fake::world};

fn refused(kind: QpType, from: QpState, modify: &Modify, errno: i32) -> String {
    let bench = bench(kind);
    world(|world| {
        world.fails = vec![("modify", errno)];
        world.state = from.0;
    });
    let error = bench.qp.modify(modify).unwrap_err();
    assert!(matches!(error, VerbsError::Modify { .. }));
    assert_eq!(error.errno(), Some(errno));
    error.to_string()
}

fn to_rtr() -> Modify {
    Modify {
        path_mtu: Some(Mtu::MTU_1024),
        dest_qpn: Some(0x12),
        rq_psn: Some(0xabcdef),
        max_dest_rd_atomic: Some(2),
        min_rnr_timer: Some(31),
        address: Some(AddressVector {
            dlid: 5,
            sl: 3,
            port: 1,
            gid: Some(GlobalRoute {
                dgid: [7; 16],
                sgid_index: 1,
                flow_label: 0x12345,
                hop_limit: 64,
                traffic_class: 9,
            }),
            ..AddressVector::default()
        }),
        ..Modify::to(QpState::RTR)
    }
}

#[test]
fn exactly_the_attributes_that_were_given_are_handed_over() {
    let bench = bench(QpType::RC);
    bench.qp.modify(&Modify::to(QpState::ERR)).unwrap();
    bench.qp.modify(&to_rtr()).unwrap();
    let modified = world(|world| std::mem::take(&mut world.modified));
    assert_eq!(modified[0].1, mask::IBV_QP_STATE.0.cast_signed());
    let (seen, set) = modified[1];
    let expected = mask::IBV_QP_STATE.0
        | mask::IBV_QP_AV.0
        | mask::IBV_QP_PATH_MTU.0
        | mask::IBV_QP_DEST_QPN.0
        | mask::IBV_QP_RQ_PSN.0
        | mask::IBV_QP_MAX_DEST_RD_ATOMIC.0
        | mask::IBV_QP_MIN_RNR_TIMER.0;
    assert_eq!(set, expected.cast_signed());
    assert_eq!(
        (seen.dest_qp_num, seen.rq_psn, seen.min_rnr_timer),
        (0x12, 0xabcdef, 31)
    );
    assert_eq!(
        (seen.ah_attr.dlid, seen.ah_attr.is_global, seen.ah_attr.grh.sgid_index),
        (5, 1, 1)
    );
    assert_eq!((seen.ah_attr.grh.flow_label, seen.ah_attr.grh.hop_limit), (0x12345, 64));
}

#[test]
fn each_attribute_has_its_own_bit() {
    let none = Modify::to(QpState::RTS);
    let one_each = [
        Modify {
            current_state: Some(QpState::RTR),
            ..none.clone()
        },
        Modify {
            pkey_index: Some(1),
            ..none.clone()
        },
        Modify {
            port: Some(1),
            ..none.clone()
        },
        Modify {
            access: Some(AccessFlags::ALL),
            ..none.clone()
        },
        Modify {
            qkey: Some(1),
            ..none.clone()
        },
        Modify {
            path_mtu: Some(Mtu::MTU_256),
            ..none.clone()
        },
        Modify {
            dest_qpn: Some(1),
            ..none.clone()
        },
        Modify {
            rq_psn: Some(1),
            ..none.clone()
        },
        Modify {
            sq_psn: Some(1),
            ..none.clone()
        },
        Modify {
            max_dest_rd_atomic: Some(1),
            ..none.clone()
        },
        Modify {
            max_rd_atomic: Some(1),
            ..none.clone()
        },
        Modify {
            min_rnr_timer: Some(1),
            ..none.clone()
        },
        Modify {
            address: Some(AddressVector::default()),
            ..none.clone()
        },
        Modify {
            timeout: Some(1),
            ..none.clone()
        },
        Modify {
            retry_cnt: Some(1),
            ..none.clone()
        },
        Modify {
            rnr_retry: Some(1),
            ..none.clone()
        },
        Modify {
            alternate: Some(AlternatePath {
                address: AddressVector::default(),
                pkey_index: 0,
                port: 2,
                timeout: 3,
            }),
            ..none.clone()
        },
        Modify {
            path_mig_state: Some(MigrationState::ARMED),
            ..none.clone()
        },
        Modify {
            sqd_async_notify: Some(true),
            ..none.clone()
        },
    ];
    let mut all = 0;
    for modify in &one_each {
        let set = modify.to_c().1 & !mask::IBV_QP_STATE.0;
        assert_eq!((set.count_ones(), set & all), (1, 0), "{modify:?}");
        all |= set;
    }
    assert_eq!(one_each[16].to_c().0.alt_timeout, 3);
    assert_eq!(one_each[13].to_c().0.timeout, 1);
    assert_eq!(one_each[14].to_c().0.retry_cnt, 1);
    assert_eq!(one_each[15].to_c().0.rnr_retry, 1);
    assert_eq!(
        (
            one_each[9].to_c().0.max_dest_rd_atomic,
            one_each[10].to_c().0.max_rd_atomic
        ),
        (1, 1)
    );
    assert_eq!((one_each[7].to_c().0.rq_psn, one_each[8].to_c().0.sq_psn), (1, 1));
}

#[test]
fn a_query_shows_what_was_set() {
    let bench = bench(QpType::RC);
    bench.qp.modify(&to_rtr()).unwrap();
    world(|world| world.state = QpState::RTR.0);
    let seen = bench.qp.query().unwrap();
    assert_eq!(
        (seen.state, seen.kind, seen.path_mtu),
        (QpState::RTR, QpType::RC, Mtu::MTU_1024)
    );
    assert_eq!(
        (seen.rq_psn, seen.dest_qpn, seen.max_dest_rd_atomic),
        (0xabcdef, 0x12, 2)
    );
    assert_eq!(Some(seen.address), to_rtr().address);
    world(|world| world.fails.push(("query_qp", libc::EIO)));
    assert_eq!(bench.qp.query().unwrap_err().errno(), Some(libc::EIO));
}

#[test]
fn a_refusal_names_what_is_missing_and_what_is_too_much() {
    let modify = Modify {
        rq_psn: Some(1),
        port: Some(1),
        ..Modify::to(QpState::INIT)
    };
    let text = refused(QpType::RC, QpState::RESET, &modify, libc::EINVAL);
    assert_eq!(
        text,
        "ibv_modify_qp of QP 0x11 on fake0 from IBV_QPS_RESET to IBV_QPS_INIT failed (Invalid argument (os error 22)): \
         this transition needs access, pkey_index too; it does not allow rq_psn"
    );
    let text = refused(QpType::UD, QpState::RESET, &modify, libc::EINVAL);
    assert!(text.contains("needs pkey_index, qkey too"), "{text}");
}

#[test]
fn a_transition_that_does_not_exist_is_called_so() {
    let text = refused(QpType::RC, QpState::RESET, &Modify::to(QpState::RTS), libc::EINVAL);
    assert!(text.contains("there is no such transition"), "{text}");
    let text = refused(QpType::RC, QpState::SQE, &Modify::to(QpState::RTS), libc::EINVAL);
    assert!(text.contains("there is no such transition"), "{text}");
}

#[test]
fn a_value_out_of_range_is_named_with_its_range() {
    let modify = Modify {
        min_rnr_timer: Some(32),
        rq_psn: Some(0x100_0000),
        path_mtu: Some(Mtu(6)),
        ..to_rtr()
    };
    let text = refused(QpType::RC, QpState::INIT, &modify, libc::EINVAL);
    for part in [
        "rq_psn is 0x1000000, which is more than 0xffffff",
        "min_rnr_timer is 0x20, which is more than 0x1f",
        "path_mtu is code 6, expected 1 to 5",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("needs") && !text.contains("not allow"), "{text}");
}

#[test]
fn a_refusal_for_another_reason_says_where_to_look() {
    let text = refused(QpType::RC, QpState::INIT, &to_rtr(), libc::EINVAL);
    assert!(text.contains("the attributes are those of this transition"), "{text}");
    let text = refused(QpType::RC, QpState::INIT, &to_rtr(), libc::ETIMEDOUT);
    assert!(text.contains("not resolved to a MAC address"), "{text}");
}

#[test]
fn the_state_that_the_caller_names_is_the_one_that_is_explained() {
    let modify = Modify {
        current_state: Some(QpState::RTS),
        timeout: Some(1),
        ..Modify::to(QpState::RTS)
    };
    let text = refused(QpType::RC, QpState::RTR, &modify, libc::EINVAL);
    assert!(text.ends_with("it does not allow timeout"), "{text}");
}

#[test]
fn a_sound_change_is_found_clean_without_calling_anybody() {
    assert!(Diagnosis::of(QpType::RC, QpState::INIT, &to_rtr()).is_clean());
    assert!(!Diagnosis::of(QpType::UD, QpState::INIT, &to_rtr()).is_clean());
    let impossible = Modify {
        retry_cnt: Some(8),
        ..Modify::to(QpState::ERR)
    };
    let found = Diagnosis::of(QpType::RC, QpState::RTS, &impossible);
    assert_eq!(
        (found.superfluous.as_slice(), found.out_of_range.len()),
        (&["retry_cnt"][..], 1)
    );
}

#[test]
fn a_state_that_cannot_be_read_is_not_taken_for_a_wrong_one() {
    let bench = bench(QpType::RC);
    world(|world| world.fails = vec![("modify", libc::EINVAL), ("query_qp", libc::EIO)]);
    let text = bench.qp.modify(&Modify::to(QpState::INIT)).unwrap_err().to_string();
    assert!(
        text.contains("could not be read") && !text.contains("no such transition"),
        "{text}"
    );
}

#[test]
fn the_usual_way_up_needs_what_the_verbs_chapter_says() {
    let bits = |names: &[mask]| names.iter().fold(0, |all, bit| all | bit.0);
    let required = |kind, from, to| attributes(kind, from, to).map(|found: Attributes| found.required);
    let (reset, init, rtr, rts) = (QpState::RESET, QpState::INIT, QpState::RTR, QpState::RTS);
    let base = [mask::IBV_QP_PKEY_INDEX, mask::IBV_QP_PORT];
    let to_init_rc = bits(&base) | mask::IBV_QP_ACCESS_FLAGS.0;
    assert_eq!(required(QpType::RC, reset, init), Some(to_init_rc));
    assert_eq!(
        required(QpType::UD, reset, init),
        Some(bits(&base) | mask::IBV_QP_QKEY.0)
    );
    let to_rtr_uc = bits(&[
        mask::IBV_QP_AV,
        mask::IBV_QP_PATH_MTU,
        mask::IBV_QP_DEST_QPN,
        mask::IBV_QP_RQ_PSN,
    ]);
    let rc_too = bits(&[mask::IBV_QP_MAX_DEST_RD_ATOMIC, mask::IBV_QP_MIN_RNR_TIMER]);
    assert_eq!(required(QpType::UC, init, rtr), Some(to_rtr_uc));
    assert_eq!(required(QpType::RC, init, rtr), Some(to_rtr_uc | rc_too));
    assert_eq!(required(QpType::UD, init, rtr), Some(0));
    let to_rts_rc = bits(&[
        mask::IBV_QP_SQ_PSN,
        mask::IBV_QP_TIMEOUT,
        mask::IBV_QP_RETRY_CNT,
        mask::IBV_QP_RNR_RETRY,
        mask::IBV_QP_MAX_QP_RD_ATOMIC,
    ]);
    assert_eq!(required(QpType::RC, rtr, rts), Some(to_rts_rc));
    assert_eq!(required(QpType::UD, rtr, rts), Some(mask::IBV_QP_SQ_PSN.0));
    let none = Some(Attributes {
        required: 0,
        optional: 0,
    });
    for from in [init, rtr, rts, QpState::SQD, QpState::SQE, QpState::ERR] {
        assert_eq!(attributes(QpType::RC, from, reset), none);
        assert_eq!(attributes(QpType::RC, from, QpState::ERR), none);
    }
    assert_eq!(attributes(QpType::RC, reset, QpState::ERR), None);
    assert_eq!(attributes(QpType::RC, QpState::ERR, rts), None);
    assert!(attributes(QpType::UC, QpState::SQE, rts).is_some());
}
