//! The port of an adapter on InfiniBand: the data packets that leave, and those that it discards.

use core::time::Duration;

use verbatim_device::{Device, Profile};
use verbatim_wire::packet::packet;
use verbatim_wire::{
    AttributeId, Bth, Layout, Lid, Lrh, Mad, Medium, Method, Network, Opcode, PKey, Packet, PortCounters, PortState,
    SlToVlMappingTable, Transport, edit,
};

fn data(sl: u8, p_key: u16, length: usize) -> Vec<u8> {
    let transport = Transport {
        bth: Bth::default().with_opcode(Opcode::RC_SEND_ONLY).with_p_key(PKey(p_key)),
        payload: vec![0; length],
        ..Transport::default()
    };
    let mut bytes = packet(&Network::infiniband(Lid(5), Lid(1)), &transport);
    edit::<Lrh>(&mut bytes, 0, |lrh| lrh.with_sl(sl));
    bytes
}

fn leaves(device: &mut Device, mut bytes: Vec<u8>) -> Option<u8> {
    let sent = device.send_data(1, &mut bytes);
    let parsed = Packet::parse(Medium::InfiniBand, &bytes).unwrap();
    assert!(!sent || parsed.vcrc_is_right() == Some(true));
    sent.then(|| Lrh::from_bytes(&bytes[..Lrh::SIZE]).vl())
}

fn set<L: Layout>(device: &mut Device, attribute: AttributeId, image: &L) {
    let mad = Mad::directed(Method::SET, attribute, 0, &[]).with_data(image.bytes());
    device.handle(Duration::ZERO, 1, mad.bytes());
}

fn discards(device: &mut Device) -> u16 {
    let asked = PortCounters::default().with_port_select(1);
    let get = Mad::performance(Method::GET, AttributeId::PORT_COUNTERS, 0).with_data(asked.bytes());
    while device.poll_transmit().is_some() {}
    device.handle(Duration::ZERO, 1, get.bytes());
    device.tick(Duration::from_secs(1));
    let answers = core::iter::from_fn(|| device.poll_transmit()).map(|sent| Mad::from(sent.bytes));
    let counters = answers
        .filter(|mad| mad.attribute_id() == AttributeId::PORT_COUNTERS)
        .last();
    counters.unwrap().attribute::<PortCounters>().port_xmit_discards()
}

#[test]
fn packets_leave_on_the_vl_of_their_sl() {
    let mut device = Device::new(Profile::full(), &[]);
    let table = SlToVlMappingTable::default()
        .with_vl(2, 3)
        .with_vl(4, 15)
        .with_vl(6, 14);
    set(&mut device, AttributeId::SL_TO_VL, &table);
    let mut vl = |sl| leaves(&mut device, data(sl, 0xFFFF, 64));
    assert_eq!((vl(0), vl(2)), (Some(0), Some(3)));
    assert_eq!((vl(4), vl(6)), (None, None), "VL 15, and a VL that is not operational");
    assert_eq!(discards(&mut device), 0);
}

#[test]
fn port_discards_invalid_partition_and_long_packets() {
    let mut device = Device::new(Profile::full(), &[]);
    assert_eq!(leaves(&mut device, data(0, 0, 64)), None);
    assert_eq!(leaves(&mut device, data(0, 0xFFFF, 4096)), Some(0));
    assert_eq!(leaves(&mut device, data(0, 0xFFFF, 4100)), None);
    assert_eq!(discards(&mut device), 1, "the packet beyond NeighborMTU");
}

#[test]
fn only_an_active_port_sends_data() {
    for state in [PortState::INITIALIZE, PortState::ARMED, PortState::ACTIVE] {
        let mut device = Device::new(
            Profile {
                port_state: state,
                ..Profile::full()
            },
            &[],
        );
        let sent = leaves(&mut device, data(0, 0xFFFF, 64)).is_some();
        assert_eq!(sent, state == PortState::ACTIVE, "{state}");
        assert_eq!(discards(&mut device), u16::from(!sent), "{state}");
    }
}
