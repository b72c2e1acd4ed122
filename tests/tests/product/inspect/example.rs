//! Makes the capture of the documentation, and compares it with the stored file.

use std::path::PathBuf;

use verbatim_capture::pcapng::{LinkType, Packet, Section, Writer};
use verbatim_wire::{AttributeId, Form, Lid, Mad, MadHeaders, Method, mad_packet};

use crate::inspect::damage::{failing, port, sound};
use crate::inspect::kinds::roce;
use crate::inspect::link::{Check, Kind};

pub(crate) fn root() -> PathBuf {
    verbatim_lab::workspace::root().to_owned()
}

/// Makes a capture with RoCE on one interface and native InfiniBand on the other; some packets are broken.
fn example() -> Vec<u8> {
    let section = Section {
        application: "Verbatim's tests",
        ..Section::default()
    };
    let mut writer = Writer::new(Vec::new(), &section).unwrap();
    let ethernet = writer.interface(LinkType::Ethernet, "eth0", "").unwrap();
    let infiniband = writer.interface(LinkType::InfiniBand, "ib0", "").unwrap();
    let [v4, v6, _] = roce(1024);
    let mut flipped = v4.clone();
    flipped[700] ^= 0x10;
    let mut arp = v4[..42].to_vec();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let mad = Mad::directed(Method::GET, AttributeId::NODE_INFO, 0, &[1]);
    let smp = mad_packet(&MadHeaders::subnet_management(Lid(3), Lid(8)), &mad);
    let ca = |checks: &[Check]| failing(checks, port(Kind::Ca, true)).bytes;
    let cut = v4.len();
    for (number, (interface, bytes, original)) in [
        (ethernet, v4.clone(), cut),
        (ethernet, flipped, cut),
        (ethernet, v6.clone(), v6.len()),
        (ethernet, arp, 42),
        (ethernet, v4[..96].to_vec(), cut),
        (infiniband, smp, 290),
        (infiniband, sound(Form::InfiniBandLocal), 42),
        (infiniband, ca(&[Check::Dlid]), 82),
        (infiniband, ca(&[Check::Vcrc, Check::Icrc, Check::VirtualLane]), 82),
        (infiniband, ca(&[Check::PKey]), 82),
    ]
    .into_iter()
    .enumerate()
    {
        let packet = Packet {
            interface,
            nanoseconds: 1_700_000_000_000_000_000 + 1_250 * number as u64,
            direction: None,
            bytes: &bytes,
            original_length: original,
            comments: &[],
        };
        writer.packet(&packet).unwrap();
    }
    writer.into_inner()
}

/// `BLESS=1 cargo test -p verbatim-tests --test product inspect::example` rewrites the capture.
#[test]
fn documented_example_is_current() {
    let path = root().join("docs/examples/inspect.cap");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, example()).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == example(), "{}", path.display());
}
