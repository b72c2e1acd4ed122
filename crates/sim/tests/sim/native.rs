//! The native link: packets pass the device's link layer, and responses leave as packets.

use core::time::Duration;

use verbatim_device::Profile;
use verbatim_device::link::LinkDefect;
use verbatim_record::{Delimiter, Time};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Arrival, Rig, Stimulus};
use verbatim_wire::{
    AttributeId, Layout, Lid, Lrh, Mad, MadHeaders, Medium, Method, Packet, PortCounters, edit, mad_packet,
};

/// The LID of the device with [`Profile::full`].
const DUT: Lid = Lid(5);
const OURS: Lid = Lid(0x77);

fn get_node() -> Mad {
    Mad::lid_routed(Method::GET, AttributeId::NODE_INFO, 0).with_transaction_id(9)
}

fn smp(dlid: Lid) -> Vec<u8> {
    mad_packet(&MadHeaders::subnet_management(OURS, dlid), &get_node())
}

fn next(rig: &mut VirtualRig) -> Arrival {
    let until = rig.now().after(Duration::from_secs(5));
    rig.wait(until)
}

fn errors(rig: &mut VirtualRig) -> u16 {
    let asked = PortCounters::default().with_port_select(1);
    let get = Mad::performance(Method::GET, AttributeId::PORT_COUNTERS, 0).with_data(asked.bytes());
    rig.send(Stimulus::Mad(0, &get)).unwrap();
    let Arrival::Mad(0, _, mad) = next(rig) else {
        panic!("no counters");
    };
    mad.attribute::<PortCounters>().port_rcv_errors()
}

#[test]
fn native_request_gets_native_response() {
    let mut rig = VirtualRig::new(Profile::full(), &[]);
    rig.send(Stimulus::Packet(0, &smp(DUT), Delimiter::Egp)).unwrap();
    let Arrival::Packet(0, at, bytes, Delimiter::Egp) = next(&mut rig) else {
        panic!("no answer");
    };
    assert!(at.earliest > Time(0));
    let packet = Packet::parse(Medium::InfiniBand, &bytes).unwrap();
    assert!(packet.icrc_is_right() && packet.vcrc_is_right() == Some(true));
    let lrh = Lrh::from_bytes(&bytes[..Lrh::SIZE]);
    assert_eq!((lrh.dlid(), lrh.slid(), lrh.vl()), (OURS, DUT, 15));

    assert_eq!(errors(&mut rig), 0);
    let mut broken = smp(DUT);
    broken[40] ^= 1;
    rig.send(Stimulus::Packet(0, &broken, Delimiter::Egp)).unwrap();
    assert_eq!(next(&mut rig), Arrival::Deadline);
    rig.send(Stimulus::Packet(0, &smp(DUT), Delimiter::Other)).unwrap();
    assert_eq!(next(&mut rig), Arrival::Deadline);
    assert_eq!(errors(&mut rig), 2);
}

#[test]
fn only_own_lid_gets_mad_response() {
    let mut rig = VirtualRig::new(Profile::full(), &[]);
    rig.send(Stimulus::MadTo(0, DUT, &get_node())).unwrap();
    assert!(matches!(next(&mut rig), Arrival::Mad(0, _, mad) if mad.transaction_id() == 9));
    rig.send(Stimulus::MadTo(0, Lid(6), &get_node())).unwrap();
    assert_eq!(next(&mut rig), Arrival::Deadline);
    let mut careless = VirtualRig::new(Profile::full(), &[]).with_link_defects(&[LinkDefect::DlidIgnored]);
    careless.send(Stimulus::MadTo(0, Lid(6), &get_node())).unwrap();
    assert!(matches!(next(&mut careless), Arrival::Mad(0, ..)));
}

#[test]
fn malformed_packets_are_discarded() {
    let mut rig = VirtualRig::new(Profile::full(), &[]);
    let whole = smp(DUT);
    for length in 0..whole.len() {
        rig.send(Stimulus::Packet(0, &whole[..length], Delimiter::Egp)).unwrap();
        assert_eq!(next(&mut rig), Arrival::Deadline, "{length} bytes");
    }
    // The device has no such port.
    rig.send(Stimulus::Packet(300, &whole, Delimiter::Egp)).unwrap();
    assert_eq!(next(&mut rig), Arrival::Deadline);
    let mut global = whole;
    edit(&mut global, 0, |lrh: Lrh| lrh.with_lver(9));
    rig.send(Stimulus::Packet(1, &global, Delimiter::Ebp)).unwrap();
    assert_eq!(next(&mut rig), Arrival::Deadline);
}
