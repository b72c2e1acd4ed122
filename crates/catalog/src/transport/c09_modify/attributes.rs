//! Incomplete and excessive sets of attributes for a transition.

use verbatim_record::verbs::pb;

/// Returns copies of `of`, each without one of its attributes.
pub(super) fn without_each(of: &pb::QpAttributes) -> Vec<pb::QpAttributes> {
    type A = pb::QpAttributes;
    let leave: [fn(&mut A); 14] = [
        |a| a.pkey_index = None,
        |a| a.port = None,
        |a| a.access = None,
        |a| a.path_mtu = None,
        |a| a.dest_qpn = None,
        |a| a.rq_psn = None,
        |a| a.sq_psn = None,
        |a| a.max_dest_rd_atomic = None,
        |a| a.max_rd_atomic = None,
        |a| a.min_rnr_timer = None,
        |a| a.timeout = None,
        |a| a.retry_cnt = None,
        |a| a.rnr_retry = None,
        |a| a.address = None,
    ];
    let qkey: fn(&mut A) = |a| a.qkey = None;
    let without = leave.into_iter().chain([qkey]).map(|leave| {
        let mut less = of.clone();
        leave(&mut less);
        less
    });
    without.filter(|less| less != of).collect()
}

/// Returns copies of `of`, each with one attribute of `others` that `of` lacks.
pub(super) fn with_each(of: &pb::QpAttributes, others: &pb::QpAttributes) -> Vec<pb::QpAttributes> {
    without_each(others)
        .into_iter()
        .filter_map(|less| {
            let mut more = of.clone();
            let mut is_new = false;
            macro_rules! add {
                ($($name:ident),*) => { $(
                    if less.$name.is_none() && others.$name.is_some() && of.$name.is_none() {
                        more.$name = others.$name.clone();
                        is_new = true;
                    }
                )* };
            }
            add!(
                pkey_index,
                port,
                access,
                path_mtu,
                dest_qpn,
                rq_psn,
                sq_psn,
                max_dest_rd_atomic,
                max_rd_atomic,
                min_rnr_timer,
                timeout,
                retry_cnt,
                rnr_retry,
                qkey,
                address
            );
            is_new.then_some(more)
        })
        .collect()
}
