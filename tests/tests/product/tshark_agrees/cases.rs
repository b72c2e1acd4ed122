//! Packets with random field values, and the objects in them.

use verbatim_tests::oracle::Random;
use verbatim_wire::trap::{BadKey, BadMKey, BadPKeyAtSwitch};
use verbatim_wire::{
    AnyAttribute, Attribute, AttributeId, Bth, Deth, DrSmp, Field, Gmp, Grh, GuidInfo, Layout, LidSmp,
    LinearForwardingTable, Lnh, Lrh, Mad, MadHeader, MadHeaders, Method, MulticastForwardingTable, NodeDescription,
    NodeInfo, Notice, Opcode, PKeyTable, PortCounters, PortInfo, PortRcvErrorDetails, Qpn, SlToVlMappingTable, SmInfo,
    SwitchInfo, VlArbitrationTable, mad_packet,
};

use crate::tshark_agrees::names::{self, Names};

/// An object in a packet, and tshark's names of its fields.
pub(crate) struct Object {
    pub(crate) names: &'static Names,
    pub(crate) fields: &'static [Field],
    pub(crate) bytes: Vec<u8>,
}

/// A packet, and all objects that tshark should find in it.
pub(crate) struct Case {
    pub(crate) what: String,
    pub(crate) packet: Vec<u8>,
    pub(crate) objects: Vec<Object>,
    pub(crate) known_malformed: bool,
}

fn object<L: Layout>(names: &'static Names, value: &L) -> Object {
    assert_eq!(names.object, L::NAME);
    Object {
        names,
        fields: L::FIELDS,
        bytes: value.bytes().to_vec(),
    }
}

/// Puts random headers around a MAD. Only the fields that determine the kind of packet are fixed.
fn case(random: &mut Random, mad: &Mad, what: String) -> Case {
    let qp = if mad.is_smp() { Qpn::SMI } else { Qpn::GSI };
    let global = random.bits() & 3 == 0;
    let headers = MadHeaders {
        lrh: Lrh::from_bytes(&random.bytes(Lrh::SIZE)),
        grh: global.then(|| {
            Grh::from_bytes(&random.bytes(Grh::SIZE))
                .with_ip_ver(6)
                .with_nxt_hdr(Grh::NEXT_IS_BTH)
        }),
        bth: Bth::from_bytes(&random.bytes(Bth::SIZE))
            .with_opcode(Opcode::UD_SEND_ONLY)
            .with_pad_count(0)
            .with_dest_qp(qp),
        deth: Deth::from_bytes(&random.bytes(Deth::SIZE)),
    };
    let packet = mad_packet(&headers, mad);
    let lrh = Lrh::from_bytes(&packet);
    let mut objects = vec![object(&names::LRH, &lrh)];
    let mut at = Lrh::SIZE;
    if lrh.lnh() == Lnh::IBA_GLOBAL {
        objects.push(object(&names::GRH, &Grh::from_bytes(&packet[at..])));
        at += Grh::SIZE;
    }
    objects.push(object(&names::BTH, &headers.bth));
    objects.push(object(&names::DETH, &headers.deth));
    objects.push(object(&names::MAD_HEADER, &mad.header()));
    objects.push(if mad.is_directed() {
        object(&names::DR_SMP, &DrSmp::from_bytes(mad.bytes()))
    } else if mad.is_smp() {
        object(&names::LID_SMP, &LidSmp::from_bytes(mad.bytes()))
    } else {
        object(&names::GMP, &Gmp::from_bytes(mad.bytes()))
    });
    if let Some(attribute) = AnyAttribute::of(mad) {
        let name = AnyAttribute::name(mad.class(), mad.attribute_id());
        objects.push(Object {
            names: names::ATTRIBUTES
                .iter()
                .find(|names| names.object == name)
                .unwrap_or_else(|| panic!("no names for {name}")),
            fields: attribute.fields(),
            bytes: attribute.bytes().to_vec(),
        });
    }
    assert_eq!(packet.len(), at + Bth::SIZE + Deth::SIZE + 256 + 4 + 2);
    Case {
        what,
        packet,
        objects,
        known_malformed: false,
    }
}

/// Returns a MAD with random contents, except for the fields that determine its kind.
fn random_mad(random: &mut Random, mad: &Mad, data: &[u8]) -> Mad {
    let fixed = mad.header();
    let mut bytes = [0; 256];
    bytes.copy_from_slice(&random.bytes(256));
    let header = MadHeader::from_bytes(&bytes)
        .with_base_version(1)
        .with_class(fixed.class())
        .with_class_version(1)
        .with_method(fixed.method())
        .with_attribute(fixed.attribute());
    Mad::from(bytes).with_header(&header).with_data(data)
}

/// Adds cases of an attribute in each of its carriers: as Get, Set and GetResp.
fn carried<A: Attribute>(random: &mut Random, cases: &mut Vec<Case>) {
    for method in [Method::GET, Method::SET, Method::GET_RESP] {
        let carriers = if A::PERFORMANCE {
            vec![Mad::performance(method, A::ID, 0)]
        } else {
            vec![Mad::lid_routed(method, A::ID, 0), Mad::directed(method, A::ID, 0, &[])]
        };
        for carrier in carriers {
            let data = if A::ID == AttributeId::NODE_DESCRIPTION {
                random.text(A::SIZE)
            } else {
                random.bytes(A::SIZE)
            };
            let mad = random_mad(random, &carrier, &data);
            cases.push(case(random, &mad, format!("{mad}")));
        }
    }
}

fn traps(random: &mut Random, cases: &mut Vec<Case>) {
    for (number, names) in (256..).zip(&names::TRAPS) {
        let notice = Notice::from_bytes(&random.bytes(Notice::SIZE))
            .with_is_generic(true)
            .with_trap_number(number);
        let carrier = Mad::lid_routed(Method::TRAP, AttributeId::NOTICE, 0);
        let mad = random_mad(random, &carrier, notice.bytes());
        let mut trap = case(random, &mad, format!("trap {number}"));
        trap.objects.push(match number {
            256 => object(names, &BadMKey::from_bytes(notice.details())),
            259 => object(names, &BadPKeyAtSwitch::from_bytes(notice.details())),
            _ => object(names, &BadKey::from_bytes(notice.details())),
        });
        trap.known_malformed = number == names::MALFORMED_TRAP;
        cases.push(trap);
    }
}

/// Returns cases of every attribute in every carrier and of every trap, eight times. The cases are the same in each
/// run.
pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random(0x5EED);
    let mut cases = Vec::new();
    for _ in 0..8 {
        carried::<NodeDescription>(&mut random, &mut cases);
        carried::<NodeInfo>(&mut random, &mut cases);
        carried::<SwitchInfo>(&mut random, &mut cases);
        carried::<GuidInfo>(&mut random, &mut cases);
        carried::<PortInfo>(&mut random, &mut cases);
        carried::<PKeyTable>(&mut random, &mut cases);
        carried::<SlToVlMappingTable>(&mut random, &mut cases);
        carried::<VlArbitrationTable>(&mut random, &mut cases);
        carried::<LinearForwardingTable>(&mut random, &mut cases);
        carried::<MulticastForwardingTable>(&mut random, &mut cases);
        carried::<SmInfo>(&mut random, &mut cases);
        carried::<Notice>(&mut random, &mut cases);
        carried::<PortCounters>(&mut random, &mut cases);
        carried::<PortRcvErrorDetails>(&mut random, &mut cases);
        traps(&mut random, &mut cases);
    }
    cases
}
