//! Pairs of transitions to RTR and RTS, with optional attributes alone and together, and with least and greatest
//! values.

use verbatim_record::verbs::pb;

use super::given::Given;
use super::later;

/// Attributes of the transition to RTR and of the transition to RTS.
pub(super) type Way = (pb::QpAttributes, pb::QpAttributes);

/// Returns the ways to RTS of a reliable connection. `resources` holds the least and the greatest
/// max_dest_rd_atomic.
pub(super) fn ways_of_connection(given: &Given, resources: [Option<u32>; 2]) -> Vec<Way> {
    let (rtr, rts, all) = (|| given.rtr.clone(), || given.rts.clone(), &given.all);
    let alone = [
        (
            pb::QpAttributes {
                access: all.access,
                ..rtr()
            },
            pb::QpAttributes {
                access: all.access,
                ..rts()
            },
        ),
        (
            pb::QpAttributes {
                pkey_index: all.pkey_index,
                ..rtr()
            },
            pb::QpAttributes {
                min_rnr_timer: all.min_rnr_timer,
                ..rts()
            },
        ),
    ];
    let together = (
        pb::QpAttributes {
            access: all.access,
            pkey_index: all.pkey_index,
            ..rtr()
        },
        later(given, &rts()),
    );
    let least = (
        pb::QpAttributes {
            max_dest_rd_atomic: resources[0],
            min_rnr_timer: Some(0),
            rq_psn: Some(0),
            ..rtr()
        },
        pb::QpAttributes {
            max_rd_atomic: Some(0),
            timeout: Some(0),
            retry_cnt: Some(0),
            rnr_retry: Some(0),
            sq_psn: Some(0),
            ..rts()
        },
    );
    let most = (
        pb::QpAttributes {
            path_mtu: Some(given.facts.active_mtu)
                .filter(|code| (1..=5).contains(code))
                .or(all.path_mtu),
            max_dest_rd_atomic: resources[1],
            min_rnr_timer: Some(31),
            rq_psn: Some(0x00FF_FFFF),
            ..rtr()
        },
        pb::QpAttributes {
            max_rd_atomic: Some(given.facts.max_qp_init_rd_atom),
            timeout: Some(31),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            sq_psn: Some(0x00FF_FFFF),
            ..rts()
        },
    );
    [(rtr(), rts()), together, least, most]
        .into_iter()
        .chain(alone)
        .collect()
}

pub(super) fn ways_of_datagrams(given: &Given) -> Vec<Way> {
    let (none, rts, all) = (pb::QpAttributes::default, || given.rts.clone(), &given.all);
    let with_key = || pb::QpAttributes {
        qkey: all.qkey,
        ..none()
    };
    let with_index = || pb::QpAttributes {
        pkey_index: all.pkey_index,
        ..none()
    };
    let with_both = pb::QpAttributes {
        pkey_index: all.pkey_index,
        ..with_key()
    };
    vec![
        (none(), rts()),
        (with_key(), later(given, &rts())),
        (with_index(), rts()),
        (with_both, rts()),
    ]
}
