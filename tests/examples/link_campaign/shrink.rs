//! Reduction of a case to a simple case with the same disagreement.

use verbatim_device::link::{Delimiter, LinkProfile, PortKind};
use verbatim_wire::{Lid, Lnh, Mtu, Opcode, PKey, PortState, Qpn};

use crate::case::Case;
use crate::damage::Damage;

/// Simplifies the case step by step, as long as `shows` returns true for the simpler case.
pub(crate) fn shrink(mut case: Case, shows: impl Fn(&Case) -> bool) -> Case {
    loop {
        match simpler(&case).into_iter().find(|simpler| shows(simpler)) {
            Some(simpler) => case = simpler,
            None => return case,
        }
    }
}

/// Returns simpler variants of the case. Each variant is nearer to the simplest case, so the reduction ends.
fn simpler(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut offer = |is_other: bool, change: &dyn Fn(&mut Case)| {
        if is_other {
            let mut other = case.clone();
            change(&mut other);
            all.push(other);
        }
    };
    for at in 0..case.steps.len() {
        let step = case.steps[at];
        offer(true, &|c| {
            c.steps.remove(at);
        });
        offer(!matches!(step.damage, Damage::Nothing), &|c| {
            c.steps[at].damage = Damage::Nothing
        });
        offer(step.mends_length, &|c| c.steps[at].mends_length = false);
        offer(step.mends_icrc, &|c| c.steps[at].mends_icrc = false);
        offer(step.mends_vcrc, &|c| c.steps[at].mends_vcrc = false);
    }
    offer(case.delimiter != Delimiter::Egp, &|c| c.delimiter = Delimiter::Egp);
    let port = &case.port;
    let plain = LinkProfile::channel_adapter(Lid(1));
    offer(port.kind != PortKind::ChannelAdapter, &|c| {
        c.port.kind = PortKind::ChannelAdapter;
    });
    offer(!port.is_destination, &|c| c.port.is_destination = true);
    offer(port.lmc > 0, &|c| c.port.lmc = 0);
    offer(port.mtu_cap != plain.mtu_cap, &|c| c.port.mtu_cap = Mtu::B4096);
    offer(port.data_vls != plain.data_vls, &|c| c.port.data_vls = plain.data_vls);
    offer(port.state != PortState::ACTIVE, &|c| c.port.state = PortState::ACTIVE);
    offer(port.p_keys != plain.p_keys, &|c| {
        c.port.p_keys.clone_from(&plain.p_keys)
    });
    offer(port.lid != plain.lid, &|c| c.port.lid = plain.lid);
    let packet = &case.packet;
    for payload in [0, packet.payload / 2, packet.payload.saturating_sub(1)] {
        offer(payload < packet.payload, &|c| c.packet.payload = payload);
    }
    offer(packet.lnh != Lnh::IBA_LOCAL, &|c| c.packet.lnh = Lnh::IBA_LOCAL);
    offer(packet.vl != 0, &|c| c.packet.vl = 0);
    offer(packet.sl != 0, &|c| c.packet.sl = 0);
    offer(packet.dlid != case.port.lid, &|c| c.packet.dlid = c.port.lid);
    offer(packet.opcode != Opcode::UC_SEND_ONLY, &|c| {
        c.packet.opcode = Opcode::UC_SEND_ONLY;
    });
    offer(packet.dest_qp != Qpn(2), &|c| c.packet.dest_qp = Qpn(2));
    offer(packet.p_key != PKey(0xFFFF), &|c| c.packet.p_key = PKey(0xFFFF));
    offer(packet.fill != 0, &|c| c.packet.fill = 0);
    all
}
