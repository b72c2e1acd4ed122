//! Tests of the headers, and of management datagrams in packets.

use crate::codes::{AttributeId, Method};
use crate::packet::*;
use proptest::prelude::*;

#[test]
fn header_fields_match_architecture() {
    let lrh = Lrh::default()
        .with_vl(0xA)
        .with_sl(3)
        .with_lnh(Lnh::IBA_GLOBAL)
        .with_dlid(Lid(0x1234))
        .with_pkt_len(0x7FF)
        .with_slid(Lid(0x5678));
    assert_eq!(lrh.bytes(), [0xA0, 0x33, 0x12, 0x34, 0x07, 0xFF, 0x56, 0x78]);

    let bth = Bth::default()
        .with_opcode(Opcode::RC_ACKNOWLEDGE)
        .with_solicited_event(true)
        .with_pad_count(2)
        .with_p_key(PKey(0x8001))
        .with_becn(true)
        .with_dest_qp(Qpn(0x01_0203))
        .with_ack_request(true)
        .with_psn(Psn(0x0A_0B0C));
    assert_eq!(
        bth.bytes(),
        [0x11, 0xA0, 0x80, 0x01, 0x40, 1, 2, 3, 0x80, 0x0A, 0x0B, 0x0C]
    );

    let deth = Deth::default().with_q_key(QKey::GSI).with_src_qp(Qpn(0x0A_0B0C));
    assert_eq!(deth.bytes(), [0x80, 0x01, 0, 0, 0, 0x0A, 0x0B, 0x0C]);

    let grh = Grh::default()
        .with_ip_ver(6)
        .with_t_class(Hex8(0xAB))
        .with_flow_label(Hex32(0xC_DEF0))
        .with_pay_len(0x0102)
        .with_nxt_hdr(Grh::NEXT_IS_BTH)
        .with_hop_lmt(64)
        .with_dgid(15, 0xEE);
    assert_eq!(grh.bytes()[..8], [0x6A, 0xBC, 0xDE, 0xF0, 1, 2, 0x1B, 64]);
    assert_eq!(grh.bytes()[39], 0xEE);
}

#[test]
fn smp_has_290_bytes_on_vl_15() {
    let mad = Mad::lid_routed(Method::GET, AttributeId::NODE_INFO, 0);
    let packet = mad_packet(&MadHeaders::subnet_management(Lid(1), Lid(2)), &mad);
    assert_eq!(packet.len(), 8 + 12 + 8 + 256 + 4 + 2);
    assert_eq!(packet[..8], [0xF0, 0x02, 0, 2, 0, 72, 0, 1]);
    assert_eq!(packet[8..20], [0x64, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packet[20..28], [0; 8]);
    assert_eq!(packet[28..284], mad.bytes()[..]);
    assert_eq!(packet[284..288], icrc(&packet[..284]).unwrap());
    assert_eq!(packet[288..], vcrc(&packet[..288]));
}

#[test]
fn gmp_accepts_global_route() {
    let mad = Mad::performance(Method::GET, AttributeId::PORT_COUNTERS, 0);
    let headers = MadHeaders {
        grh: Some(Grh::default().with_ip_ver(6).with_nxt_hdr(Grh::NEXT_IS_BTH)),
        ..MadHeaders::general(Lid(1), Lid(2)).with_psn(Psn(7))
    };
    let packet = mad_packet(&headers, &mad);
    assert_eq!(packet[..6], [0x00, 0x03, 0, 2, 0, 82]);
    assert_eq!(packet[12..14], [1, 24], "PayLen: BTH to ICRC, 280 bytes");
    assert_eq!(Bth::from_bytes(&packet[48..]).dest_qp(), Qpn::GSI);
    assert_eq!(Deth::from_bytes(&packet[60..]).q_key(), QKey::GSI);
    assert_eq!(packet[324..328], icrc(&packet[..324]).unwrap());
}

proptest! {
    #[test]
    fn any_bytes_print_as_headers(
        bytes in proptest::collection::vec(any::<u8>(), 0..48)
    ) {
        fn check<L: Layout>(bytes: &[u8]) -> Result<(), TestCaseError> {
            let header = L::from_bytes(bytes);
            prop_assert!(!header.to_string().is_empty());
            let kept = bytes.len().min(L::SIZE);
            prop_assert_eq!(&header.bytes()[..kept], &bytes[..kept]);
            prop_assert_eq!(L::from_bytes(header.bytes()), header.clone());
            let _ = header.validate();
            Ok(())
        }
        check::<Lrh>(&bytes)?;
        check::<Grh>(&bytes)?;
        check::<Bth>(&bytes)?;
        check::<Deth>(&bytes)?;
    }
}
