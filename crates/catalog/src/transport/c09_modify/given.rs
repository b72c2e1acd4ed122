//! Attributes of a queue pair on its way to RTS, by service and by capabilities of the device.

use verbatim_record::Side;
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Step, Stop, Tester};

use super::OPEN;

/// Attributes of a queue pair on its way to RTS, one set for each transition.
pub(super) struct Given {
    pub(super) init: pb::QpAttributes,
    pub(super) rtr: pb::QpAttributes,
    pub(super) rts: pb::QpAttributes,
    /// All attributes together.
    pub(super) all: pb::QpAttributes,
    pub(super) facts: pb::Opened,
}

impl Given {
    pub(super) fn ask(t: &mut Tester<'_>, channel: &Channel, service: pb::Service) -> Step<Self> {
        let Reply::Opened(facts) = t.verbs_must(OPEN, Side::Dut, Command::Open(pb::Open {}))? else {
            return Err(Stop::Tester("a host answered Open with another reply".into()));
        };
        let usual = t.nearest(&ChannelOptions::default());
        let all = pb::QpAttributes {
            pkey_index: Some(0),
            port: Some(facts.port),
            access: Some(pb::Access::default()),
            path_mtu: Some(channel.mtu.0.into()),
            // Not the queue pair of the connection's peer, so that packets from the DUT do not belong to the
            // connection.
            dest_qpn: Some(channel.own_qpn.0 ^ 0x0100),
            rq_psn: Some(0x00A5_5A01),
            sq_psn: Some(0x005A_A502),
            max_dest_rd_atomic: Some(facts.max_qp_rd_atom.min(1)),
            max_rd_atomic: Some(facts.max_qp_init_rd_atom.min(1)),
            min_rnr_timer: Some(usual.min_rnr_timer.0.into()),
            timeout: Some(usual.timeout.0.into()),
            retry_cnt: Some(7),
            rnr_retry: Some(usual.rnr_retry.into()),
            qkey: Some(0x1234_5678),
            address: Some(t.address_of_peer(&facts)?),
        };
        let none = pb::QpAttributes::default;
        let is_rc = service == pb::Service::Rc;
        let init = pb::QpAttributes {
            pkey_index: all.pkey_index,
            port: all.port,
            access: all.access.filter(|_| is_rc),
            qkey: all.qkey.filter(|_| !is_rc),
            ..none()
        };
        let (rtr, rts) = if is_rc {
            let rtr = pb::QpAttributes {
                path_mtu: all.path_mtu,
                dest_qpn: all.dest_qpn,
                rq_psn: all.rq_psn,
                max_dest_rd_atomic: all.max_dest_rd_atomic,
                min_rnr_timer: all.min_rnr_timer,
                address: all.address.clone(),
                ..none()
            };
            let rts = pb::QpAttributes {
                sq_psn: all.sq_psn,
                timeout: all.timeout,
                retry_cnt: all.retry_cnt,
                rnr_retry: all.rnr_retry,
                max_rd_atomic: all.max_rd_atomic,
                ..none()
            };
            (rtr, rts)
        } else {
            let rts = pb::QpAttributes {
                sq_psn: all.sq_psn,
                ..none()
            };
            (none(), rts)
        };
        Ok(Self {
            init,
            rtr,
            rts,
            all,
            facts,
        })
    }
}
