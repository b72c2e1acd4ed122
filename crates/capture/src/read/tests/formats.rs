//! pcap and pcapng files of every variant.

use super::files::{BIG, Hand, LITTLE};
use super::packets;
use crate::pcapng::{LinkType, Packet, Section, Writer};
use crate::read::{Content, Unread};

#[test]
fn pcap_reads_all_orders_and_resolutions() {
    for hand in [LITTLE, BIG] {
        for (magic, fraction) in [(0xA1B2_C3D4, 123_456), (0xA1B2_3C4D, 123_456_000)] {
            let file = [
                hand.pcap(magic, 1),
                hand.packet((7, fraction), &[1, 2, 3], 3),
                hand.packet((8, 0), &[], 0),
                hand.packet((9, 0), &[4, 5], 100),
            ];
            let seen = packets(&file.concat());
            assert_eq!(seen.len(), 3);
            assert_eq!(seen[0].time, "7.123456000");
            assert_eq!(
                (seen[0].number, seen[0].offset, &seen[0].bytes[..]),
                (1, 24, &[1, 2, 3][..])
            );
            assert!(seen[0].is_whole && seen[1].is_whole && !seen[2].is_whole);
            assert_eq!((seen[2].number, seen[2].offset), (3, 24 + 19 + 16));
            assert!(seen.iter().all(|packet| packet.content == Content::Ethernet));
        }
    }
}

#[test]
fn fcs_length_is_not_in_the_link_type() {
    for hand in [LITTLE, BIG] {
        let file = [hand.pcap(0xA1B2_C3D4, 0x2400_0000 | 247), hand.packet((0, 0), &[1], 1)].concat();
        assert_eq!(packets(&file)[0].content, Content::InfiniBand);
    }
}

#[test]
fn capture_may_have_no_packets() {
    assert_eq!(packets(&LITTLE.pcap(0xA1B2_C3D4, 1)), []);
    assert_eq!(packets(&LITTLE.section()), []);
}

#[test]
fn pcapng_reads_all_packet_blocks() {
    for hand in [LITTLE, BIG] {
        let old = [
            hand.u16(0),
            hand.u16(9),
            hand.u32(0),
            hand.u32(2_000_000),
            hand.u32(5),
            hand.u32(5),
            vec![9; 5],
        ];
        let file = [
            hand.section(),
            hand.interface(1, 0, &[]),
            hand.enhanced(0, 1_500_000, &[1, 2, 3], 3),
            hand.block(2, &old.concat()),
            hand.block(3, &[hand.u32(2), vec![7, 8]].concat()),
            hand.enhanced(0, 3_000_000, &[1], 4),
        ];
        let seen = packets(&file.concat());
        let times: Vec<&str> = seen.iter().map(|packet| &packet.time[..]).collect();
        assert_eq!(times, ["1.500000000", "2.000000000", "-", "3.000000000"]);
        let bytes: Vec<&[u8]> = seen.iter().map(|packet| &packet.bytes[..]).collect();
        assert_eq!(bytes, [&[1, 2, 3][..], &[9; 5], &[7, 8], &[1]]);
        let whole: Vec<bool> = seen.iter().map(|packet| packet.is_whole).collect();
        assert_eq!(whole, [true, true, true, false]);
    }
}

#[test]
fn simple_packet_length_is_bounded() {
    let simple = |original: u32, bytes: &[u8]| LITTLE.block(3, &[LITTLE.u32(original), bytes.to_vec()].concat());
    let file = [
        LITTLE.section(),
        LITTLE.interface(1, 6, &[]),
        simple(6, &[1; 6]),
        simple(60, &[1; 6]),
        simple(60, &[1; 8]),
    ];
    let seen = packets(&file.concat());
    let lengths: Vec<(usize, bool)> = seen
        .iter()
        .map(|packet| (packet.bytes.len(), packet.is_whole))
        .collect();
    assert_eq!(lengths, [(6, true), (6, false), (6, false)]);
}

#[test]
fn interfaces_have_own_link_type_and_clock() {
    let hand = BIG;
    let nanoseconds = hand.option(9, &[9]);
    let from = [
        hand.option(2, b"port"),
        hand.option(14, &hand.u64(100)),
        hand.option(0, &[]),
    ]
    .concat();
    let file = [
        hand.section(),
        hand.interface(1, 0, &nanoseconds),
        hand.interface(247, 0, &from),
        hand.interface(220, 0, &[]),
        hand.enhanced(1, 1, &[], 0),
        hand.enhanced(0, 1, &[], 0),
        hand.enhanced(2, 1, &[], 0),
    ];
    let seen = packets(&file.concat());
    let seen: Vec<(Content, &str)> = seen.iter().map(|packet| (packet.content, &packet.time[..])).collect();
    assert_eq!(
        seen,
        [
            (Content::InfiniBand, "100.000001000"),
            (Content::Ethernet, "0.000000001"),
            (Content::Unread(Unread::LinkType(220)), "0.000001000"),
        ]
    );
}

#[test]
fn section_resets_order_and_interfaces() {
    let part = |hand: Hand, link_type| {
        [
            hand.section(),
            hand.interface(link_type, 0, &[]),
            hand.enhanced(0, 0, &[1], 1),
        ]
        .concat()
    };
    let seen = packets(&[part(LITTLE, 1), part(BIG, 247), part(LITTLE, 1)].concat());
    let content: Vec<Content> = seen.iter().map(|packet| packet.content).collect();
    assert_eq!(content, [Content::Ethernet, Content::InfiniBand, Content::Ethernet]);
    assert_eq!(seen[2].number, 3);
}

#[test]
fn long_blocks_without_packets_are_skipped() {
    let hand = LITTLE;
    let file = [
        hand.section(),
        hand.block(0xBAD, &vec![0xEE; 1 << 20]),
        hand.interface(1, 0, &[]),
        hand.block(5, &[0; 40]),
        hand.block(4, &[]),
        hand.enhanced(0, 0, &[1], 1),
        hand.block(10, &[0; 4]),
    ];
    assert_eq!(packets(&file.concat()).len(), 1);
}

#[test]
fn reader_reads_own_writer() {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let ethernet = writer.interface(LinkType::Ethernet, "ether0", "frames").unwrap();
    let infiniband = writer.interface(LinkType::InfiniBand, "port0", "").unwrap();
    let comments = ["a comment".to_string()];
    for (number, interface) in [ethernet, infiniband, ethernet].into_iter().enumerate() {
        let bytes = vec![0x10 + u8::try_from(number).unwrap(); 20 + number];
        let packet = Packet {
            interface,
            nanoseconds: 1_000_000_007 * number as u64,
            direction: None,
            bytes: &bytes,
            original_length: bytes.len() + number / 2,
            comments: &comments,
        };
        writer.packet(&packet).unwrap();
    }
    let seen = packets(&writer.into_inner());
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[1].time, "1.000000007");
    assert_eq!(
        (seen[1].content, &seen[1].bytes[..]),
        (Content::InfiniBand, &[0x11; 21][..])
    );
    assert!(seen[1].is_whole && !seen[2].is_whole);
}
