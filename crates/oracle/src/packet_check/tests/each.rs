//! Each check alone, at a channel adapter, with values on both sides of its limit.

use verbatim_wire::packet::packet;
use verbatim_wire::{
    AttributeId, Bth, Form, Grh, Lid, Lrh, Mad, MadHeaders, Medium, Method, Mtu, Network, Opcode, PKey, PortState, Qpn,
    Transport, edit, mad_packet, mend_icrc, mend_vcrc,
};

use super::damage::{failing, native, port, sound};
use super::link::{Action, Certainty, Check, Checks, Counter, Delimiter, Judgement, Kind, Port, Received, check};

const MEDIUM: Medium = Medium::InfiniBand;

fn judge(port: &Port, bytes: &[u8]) -> Judgement {
    let packet = Received {
        medium: MEDIUM,
        bytes,
        delimiter: Some(Delimiter::Egp),
        is_whole: true,
    };
    check(port, &packet)
}

fn failed(port: &Port, bytes: &[u8]) -> Checks {
    judge(port, bytes).failed
}

fn ca() -> Port {
    port(Kind::Ca, true)
}

/// Returns the valid local packet with a changed LRH and right CRCs.
fn with_lrh(change: impl Fn(Lrh) -> Lrh) -> Vec<u8> {
    let mut bytes = sound(Form::InfiniBandLocal);
    edit(&mut bytes, 0, change);
    mend_icrc(MEDIUM, &mut bytes).unwrap();
    mend_vcrc(MEDIUM, &mut bytes).unwrap();
    bytes
}

/// Returns the valid local packet with a changed BTH and right CRCs.
fn with_bth(change: impl Fn(Bth) -> Bth) -> Vec<u8> {
    let mut bytes = sound(Form::InfiniBandLocal);
    edit(&mut bytes, 8, change);
    mend_icrc(MEDIUM, &mut bytes).unwrap();
    mend_vcrc(MEDIUM, &mut bytes).unwrap();
    bytes
}

/// Appends the right VCRC.
fn ended(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(verbatim_wire::crc::vcrc(&bytes));
    bytes
}

/// Returns a raw packet with that many bytes before the VCRC.
fn raw(length: u16, lnh: u8, vl: u8) -> Vec<u8> {
    let lrh = Lrh::default()
        .with_lnh(verbatim_wire::Lnh(lnh))
        .with_vl(vl)
        .with_dlid(Lid(8))
        .with_pkt_len(length / 4);
    let mut bytes = verbatim_wire::Layout::bytes(&lrh).to_vec();
    bytes.resize(length.into(), 0xA5);
    ended(bytes)
}

fn smp() -> Vec<u8> {
    let mad = Mad::directed(Method::GET, AttributeId::NODE_INFO, 0, &[1]);
    mad_packet(&MadHeaders::subnet_management(Lid(3), Lid(8)), &mad)
}

#[test]
fn sound_packets_are_accepted() {
    for form in [Form::InfiniBandLocal, Form::InfiniBandGlobal] {
        let judgement = judge(&ca(), &sound(form));
        assert_eq!(judgement.action, Action::Accept, "{judgement:?}");
        assert_eq!((judgement.first, judgement.counter), (None, None));
        assert!(judgement.absent.is_empty() && judgement.untold.is_empty());
    }
    assert_eq!(failed(&ca(), &smp()), Checks::NONE);
}

#[test]
fn single_failure_is_certain_and_counted() {
    let counters = [
        (Check::Delimiter, Some(Counter::PortRcvRemotePhysicalErrors)),
        (Check::Vcrc, Some(Counter::PortRcvErrors)),
        (Check::Icrc, Some(Counter::PortRcvErrors)),
        (Check::LinkVersion, Some(Counter::PortRcvErrors)),
        (Check::Length, Some(Counter::PortRcvErrors)),
        (Check::Mtu, Some(Counter::PortRcvErrors)),
        (Check::VirtualLane, Some(Counter::PortRcvErrors)),
        (Check::PortState, None),
        (Check::ManagementLane, None),
        (Check::Dlid, None),
        (Check::Grh, None),
        (Check::TransportVersion, None),
        (Check::PKey, Some(Counter::PKeyViolations)),
    ];
    assert_eq!(counters.map(|(check, _)| check).to_vec(), native().collect::<Vec<_>>());
    for (what, counter) in counters {
        let arrival = failing(&[what], ca());
        let judgement = check(&arrival.port, &arrival.received());
        assert_eq!(judgement.failed, Checks::of(&[what]));
        assert_eq!(judgement.first, Some((what, Certainty::Certain)));
        assert_eq!(judgement.action, Action::Discard, "{what}");
        assert_eq!(judgement.counter, counter, "{what}");
    }
}

#[test]
fn unknown_delimiter_is_a_local_error() {
    let mut arrival = failing(&[], ca());
    arrival.delimiter = Delimiter::Other;
    let judgement = check(&arrival.port, &arrival.received());
    assert_eq!(judgement.failed, Checks::of(&[Check::Delimiter]));
    assert_eq!(judgement.counter, Some(Counter::PortRcvErrors));
}

#[test]
fn every_link_version_but_0_fails() {
    for lver in 0..16 {
        let seen = failed(&ca(), &with_lrh(|lrh| lrh.with_lver(lver)));
        assert_eq!(seen.contains(Check::LinkVersion), lver != 0, "{lver}");
        assert!(seen.len() <= 1);
    }
}

#[test]
fn pkt_len_counts_4_byte_words() {
    let right = 8 + 12 + 16 + 4;
    for (pkt_len, fails) in [
        (right / 4 - 1, true),
        (right / 4, false),
        (right / 4 + 1, true),
        (0, true),
        (0x7FF, true),
    ] {
        let mut bytes = sound(Form::InfiniBandLocal);
        // Parse the offsets before PktLen changes, so that the CRCs cover the bytes that arrive.
        let at = verbatim_wire::Packet::parse(MEDIUM, &bytes).unwrap().offsets();
        edit(&mut bytes, 0, |lrh: Lrh| lrh.with_pkt_len(pkt_len));
        at.mend_icrc(&mut bytes);
        at.mend_vcrc(&mut bytes);
        assert_eq!(failed(&ca(), &bytes).contains(Check::Length), fails, "{pkt_len}");
    }
}

#[test]
fn truncated_packet_fails_length() {
    let whole = sound(Form::InfiniBandGlobal);
    for length in 0..whole.len() {
        let judgement = judge(&ca(), &whole[..length]);
        assert!(judgement.failed.contains(Check::Length), "{length}");
        assert_eq!(judgement.action, Action::Discard);
    }
    let longer = [&whole[..], &[0; 4]].concat();
    assert!(failed(&ca(), &longer).contains(Check::Length));
}

#[test]
fn minimum_is_5_words_raw_and_6_iba() {
    assert_eq!(failed(&ca(), &raw(20, 0, 0)), Checks::NONE);
    assert_eq!(failed(&ca(), &raw(20, 1, 0)), Checks::NONE);
    assert_eq!(failed(&ca(), &raw(16, 0, 0)), Checks::of(&[Check::Length]));
    assert_eq!(failed(&ca(), &raw(16, 1, 0)), Checks::of(&[Check::Length]));

    let least = Transport {
        bth: Bth::default().with_p_key(PKey(1)).with_dest_qp(Qpn(2)),
        ..Transport::default()
    };
    let least = packet(&Network::infiniband(Lid(3), Lid(8)), &least);
    assert_eq!(least.len(), 24 + 2);
    assert_eq!(failed(&ca(), &least), Checks::NONE);
    let mut five = least[..20].to_vec();
    edit(&mut five, 0, |lrh: Lrh| lrh.with_pkt_len(5));
    assert_eq!(failed(&ca(), &ended(five)), Checks::of(&[Check::Length]));
}

#[test]
fn packet_may_exceed_mtu_by_124_bytes() {
    let of = |mtu_cap| Port { mtu_cap, ..ca() };
    for (mtu, bytes) in [
        (Mtu::B256, 256),
        (Mtu::B512, 512),
        (Mtu::B1024, 1024),
        (Mtu::B2048, 2048),
        (Mtu::B4096, 4096),
    ] {
        assert_eq!(failed(&of(mtu), &raw(bytes + 124, 0, 0)), Checks::NONE, "{mtu}");
        assert_eq!(
            failed(&of(mtu), &raw(bytes + 128, 0, 0)),
            Checks::of(&[Check::Mtu]),
            "{mtu}"
        );
    }
    assert_eq!(
        failed(&of(Mtu(9)), &raw(8000, 0, 0)),
        Checks::NONE,
        "an unknown MTU limits nothing"
    );
}

#[test]
fn only_configured_vls_and_vl_15_exist() {
    for vls in 1..=15 {
        let port = Port { vls, ..ca() };
        for vl in 0..15 {
            let seen = failed(&port, &with_lrh(|lrh| lrh.with_vl(vl)));
            assert_eq!(seen.contains(Check::VirtualLane), vl >= vls, "VL {vl} of {vls}");
        }
        assert_eq!(failed(&port, &smp()), Checks::NONE);
    }
}

#[test]
fn port_state_limits_accepted_vls() {
    let in_state = |state| Port { state, ..ca() };
    let data = sound(Form::InfiniBandLocal);
    for (state, takes_data, takes_smps) in [
        (PortState::DOWN, false, false),
        (PortState::INITIALIZE, false, true),
        (PortState::ARMED, true, true),
        (PortState::ACTIVE, true, true),
    ] {
        assert_eq!(failed(&in_state(state), &data).is_empty(), takes_data, "{state}");
        assert_eq!(failed(&in_state(state), &smp()).is_empty(), takes_smps, "{state}");
    }
}

#[test]
fn unicast_dlid_ignores_low_lmc_bits() {
    for (lid, lmc, first, last) in [
        (8, 0, 8, 8),
        (8, 2, 8, 11),
        (8, 3, 8, 15),
        (9, 2, 8, 11),
        (0x80, 7, 0x80, 0xFF),
    ] {
        let port = Port {
            lid: Some(Lid(lid)),
            lmc,
            ..ca()
        };
        for dlid in [1, first - 1, first, last, last + 1, 0xBFFF] {
            let seen = failed(&port, &with_lrh(|lrh| lrh.with_dlid(Lid(dlid))));
            let ours = (first..=last).contains(&dlid);
            assert_eq!(seen.contains(Check::Dlid), !ours, "DLID {dlid} at {lid}, LMC {lmc}");
        }
    }
}

#[test]
fn dlid_0_fails_and_permissive_needs_vl_15() {
    assert_eq!(
        failed(&ca(), &with_lrh(|lrh| lrh.with_dlid(Lid(0)))),
        Checks::of(&[Check::Dlid])
    );
    assert_eq!(
        failed(&ca(), &with_lrh(|lrh| lrh.with_dlid(Lid::PERMISSIVE))),
        Checks::of(&[Check::Dlid])
    );
    let mut directed = smp();
    edit(&mut directed, 0, |lrh: Lrh| lrh.with_dlid(Lid::PERMISSIVE));
    mend_icrc(MEDIUM, &mut directed).unwrap();
    mend_vcrc(MEDIUM, &mut directed).unwrap();
    assert_eq!(failed(&ca(), &directed), Checks::NONE);
}

#[test]
fn multicast_packet_needs_a_grh() {
    for dlid in [0xC000, 0xFFFE] {
        let without = with_lrh(|lrh| lrh.with_dlid(Lid(dlid)));
        assert_eq!(failed(&ca(), &without), Checks::of(&[Check::Grh]));
        let mut with = sound(Form::InfiniBandGlobal);
        edit(&mut with, 0, |lrh: Lrh| lrh.with_dlid(Lid(dlid)));
        mend_vcrc(MEDIUM, &mut with).unwrap();
        assert_eq!(failed(&ca(), &with), Checks::NONE);
    }
    // 0xBFFF is the last unicast LID.
    assert_eq!(
        failed(&ca(), &with_lrh(|lrh| lrh.with_dlid(Lid(0xBFFF)))),
        Checks::of(&[Check::Dlid])
    );
}

#[test]
fn vl_15_and_qp0_carry_only_smps() {
    let lane = Checks::of(&[Check::ManagementLane]);
    assert_eq!(failed(&ca(), &raw(40, 0, 15)), lane, "raw");
    assert_eq!(failed(&ca(), &raw(40, 1, 15)), lane, "raw IPv6");
    assert_eq!(
        failed(&ca(), &with_lrh(|lrh| lrh.with_vl(15))),
        lane,
        "an ordinary packet"
    );
    assert_eq!(
        failed(&ca(), &with_bth(|bth| bth.with_dest_qp(Qpn::SMI))),
        lane,
        "QP0 on VL 1"
    );
    let broken = |change: fn(&mut Vec<u8>)| {
        let mut bytes = smp();
        change(&mut bytes);
        mend_icrc(MEDIUM, &mut bytes).unwrap();
        mend_vcrc(MEDIUM, &mut bytes).unwrap();
        // Turn off the P_Key check, which applies to all queue pairs except QP0.
        let port = Port { p_keys: None, ..ca() };
        failed(&port, &bytes)
    };
    assert_eq!(broken(|smp| edit(smp, 8, |bth: Bth| bth.with_dest_qp(Qpn::GSI))), lane);
    assert_eq!(
        broken(|smp| edit(smp, 8, |bth: Bth| bth.with_opcode(Opcode::RC_SEND_ONLY))),
        lane
    );
    assert_eq!(
        broken(|smp| {
            smp.truncate(smp.len() - 4);
            edit(smp, 0, |lrh: Lrh| lrh.with_pkt_len(lrh.pkt_len() - 1));
        }),
        lane,
        "a short MAD"
    );
    assert_eq!(
        broken(|smp| edit(smp, 0, |lrh: Lrh| lrh.with_dlid(Lid(0xC001)))),
        lane.and(Checks::of(&[Check::Grh])),
        "multicast"
    );
}

#[test]
fn vl_15_with_grh_is_not_judged() {
    let headers = MadHeaders {
        grh: Some(Grh::default().with_ip_ver(6).with_nxt_hdr(Grh::NEXT_IS_BTH)),
        ..MadHeaders::subnet_management(Lid(3), Lid(8))
    };
    let mad = Mad::directed(Method::GET, AttributeId::NODE_INFO, 0, &[1]);
    let judgement = judge(&ca(), &mad_packet(&headers, &mad));
    assert_eq!(judgement.failed, Checks::NONE);
    assert_eq!(judgement.action, Action::NotJudged(super::link::UNSETTLED_VL15_GRH));
}

#[test]
fn grh_version_next_and_length_are_checked() {
    use verbatim_wire::values::Hex8;
    let with_grh = |change: fn(Grh) -> Grh| {
        let mut bytes = sound(Form::InfiniBandGlobal);
        let at = verbatim_wire::Packet::parse(MEDIUM, &bytes).unwrap().offsets();
        edit(&mut bytes, 8, change);
        at.mend_icrc(&mut bytes);
        at.mend_vcrc(&mut bytes);
        failed(&ca(), &bytes)
    };
    let grh = Checks::of(&[Check::Grh]);
    assert_eq!(with_grh(|grh| grh.with_t_class(Hex8(9)).with_hop_lmt(0)), Checks::NONE);
    assert_eq!(with_grh(|grh| grh.with_ip_ver(4)), grh);
    assert_eq!(with_grh(|grh| grh.with_nxt_hdr(Hex8(0x11))), grh);
    assert_eq!(with_grh(|grh| grh.with_pay_len(grh.pay_len() + 4)), grh);
    assert_eq!(with_grh(|grh| grh.with_pay_len(grh.pay_len() - 4)), grh);
}

#[test]
fn p_keys_match_with_one_full_member() {
    let at = |own: u16, sent: u16| {
        let port = Port {
            p_keys: Some(vec![PKey(0x7777), PKey(own)]),
            ..ca()
        };
        failed(&port, &with_bth(|bth| bth.with_p_key(PKey(sent)))).is_empty()
    };
    for (own, sent, takes) in [
        (0x8001, 0x8001, true),
        (0x8001, 0x0001, true),
        (0x0001, 0x8001, true),
        (0x0001, 0x0001, false),
        (0x8001, 0x8002, false),
        (0x8000, 0x8000, false),
        (0x0000, 0x8000, false),
        (0xFFFF, 0x7FFF, true),
    ] {
        assert_eq!(at(own, sent), takes, "{own:#06x} {sent:#06x}");
    }
    let none = Port {
        p_keys: Some(Vec::new()),
        ..ca()
    };
    assert_eq!(failed(&none, &sound(Form::InfiniBandLocal)), Checks::of(&[Check::PKey]));
    assert_eq!(failed(&none, &smp()), Checks::NONE, "QP0 belongs to no partition");
}

#[test]
fn unknown_facts_are_not_checked() {
    let port = Port::channel_adapter();
    let packet = Received {
        medium: Medium::InfiniBandNoVcrc,
        bytes: &with_lrh(|lrh| lrh.with_dlid(Lid(77)))[..40],
        delimiter: None,
        is_whole: true,
    };
    let judgement = check(&port, &packet);
    assert_eq!(judgement.action, Action::Accept);
    assert_eq!(judgement.absent, Checks::of(&[Check::Delimiter, Check::Vcrc]));
    assert_eq!(judgement.untold, Checks::of(&[Check::Dlid, Check::PKey]));
}

#[test]
fn partial_packet_is_not_judged() {
    let packet = Received {
        medium: MEDIUM,
        bytes: &[0; 30],
        delimiter: Some(Delimiter::Ebp),
        is_whole: false,
    };
    let judgement = check(&ca(), &packet);
    assert!(matches!(judgement.action, Action::NotJudged(_)), "{judgement:?}");
    assert_eq!(judgement.failed, Checks::NONE);
}
