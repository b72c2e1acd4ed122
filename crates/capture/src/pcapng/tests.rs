//! Reads the writer's output with a separate reader, and compares the output with a hex dump.

use super::*;

/// A block: its type, its fixed fields, its packet data and its options.
struct Block {
    kind: u32,
    fixed: Vec<u8>,
    data: Vec<u8>,
    options: Vec<(u16, Vec<u8>)>,
}

impl Block {
    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.fixed[at..at + 2].try_into().unwrap())
    }
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.fixed[at..at + 4].try_into().unwrap())
    }
    fn texts(&self, code: u16) -> Vec<&str> {
        self.options
            .iter()
            .filter(|(have, _)| *have == code)
            .map(|(_, value)| std::str::from_utf8(value).unwrap())
            .collect()
    }
}

fn word(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize
}

/// Reads a whole file; panics if the file breaks the format.
fn read(file: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let kind = u32::try_from(word(file, at)).unwrap();
        let total = word(file, at + 4);
        assert_eq!(total % 4, 0, "blocks are aligned");
        assert_eq!(word(file, at + total - 4), total, "the length stands at both ends");
        let body = &file[at + 8..at + total - 4];
        let fixed = match kind {
            SECTION_HEADER => 16,
            INTERFACE_DESCRIPTION => 8,
            ENHANCED_PACKET => 20,
            other => panic!("a block of type {other:#x}"),
        };
        let data = if kind == ENHANCED_PACKET { word(body, 12) } else { 0 };
        let padded = data.next_multiple_of(4);
        assert!(body[fixed + data..fixed + padded].iter().all(|&byte| byte == 0));
        blocks.push(Block {
            kind,
            fixed: body[..fixed].to_vec(),
            data: body[fixed..fixed + data].to_vec(),
            options: options(&body[fixed + padded..]),
        });
        at += total;
    }
    blocks
}

fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    loop {
        let code = u16::from_le_bytes(bytes[..2].try_into().unwrap());
        let length = usize::from(u16::from_le_bytes(bytes[2..4].try_into().unwrap()));
        if code == OPT_END {
            assert_eq!(bytes, [0; 4], "nothing follows the end of options");
            return options;
        }
        options.push((code, bytes[4..4 + length].to_vec()));
        bytes = &bytes[4 + length.next_multiple_of(4)..];
    }
}

fn packet(interface: InterfaceId, bytes: &[u8]) -> Packet<'_> {
    Packet {
        interface,
        nanoseconds: 0,
        direction: None,
        bytes,
        original_length: bytes.len(),
        comments: &[],
    }
}

#[test]
fn file_matches_hex_dump() {
    let section = Section {
        hardware: "rig",
        os: "Linux",
        application: "verbatim 0",
        comments: &["whole".to_string()],
    };
    let mut writer = Writer::new(Vec::new(), &section).unwrap();
    let port = writer.interface(LinkType::InfiniBand, "mlx5_0/1", "").unwrap();
    writer
        .packet(&Packet {
            nanoseconds: 2_500_000_000,
            direction: Some(Direction::Out),
            comments: &["C9-130".to_string(), "x".to_string()],
            original_length: 290,
            ..packet(port, &[0xF0, 0x02, 0x00, 0x02, 0x00])
        })
        .unwrap();
    let want = "
        0a0d0d0a 50000000 4d3c2b1a 0100 0000 ffffffffffffffff
          0100 0500 77686f6c65 000000
          0200 0300 726967 00
          0300 0500 4c696e7578 000000
          0400 0a00 766572626174696d2030 0000
          0000 0000 50000000
        01000000 2c000000 c500 0000 00000000
          0200 0800 6d6c78355f302f31
          0900 0100 09 000000
          0000 0000 2c000000
        06000000 58000000 00000000 00000000 00f90295 15000000 32010000
          00000080 02000000 15 04 0015 0000 0122 f002000200 000000
          0100 0600 43392d313330 0000
          0100 0100 78 000000
          0200 0400 02000000
          0000 0000 58000000";
    let want: String = want.split_whitespace().collect();
    let have: String = writer.into_inner().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(have, want);
}

#[test]
fn written_blocks_read_back() {
    let text = |length: usize| "abcdefgh".chars().cycle().take(length).collect::<String>();
    for size in 0..20 {
        let comments = [text(size + 1), text(size + 2)];
        let application = text(size);
        let section = Section {
            application: &application,
            comments: &comments,
            ..Section::default()
        };
        let mut writer = Writer::new(Vec::new(), &section).unwrap();
        let first = writer.interface(LinkType::Ethernet, "eth0", "").unwrap();
        let second = writer
            .interface(LinkType::InfiniBand, &text(size + 1), "a port")
            .unwrap();
        let bytes: Vec<u8> = (0..u8::try_from(size).unwrap()).collect();
        for (interface, direction) in [(second, Some(Direction::In)), (first, None)] {
            let packet = Packet {
                nanoseconds: u64::MAX - 5,
                direction,
                comments: &comments,
                ..packet(interface, &bytes)
            };
            writer.packet(&packet).unwrap();
        }
        let blocks = read(&writer.into_inner());
        let kinds: Vec<u32> = blocks.iter().map(|block| block.kind).collect();
        assert_eq!(kinds, [SECTION_HEADER, 1, 1, 6, 6]);

        assert_eq!(blocks[0].texts(OPT_COMMENT), comments);
        assert_eq!(blocks[0].texts(SHB_USERAPPL).concat(), application, "absent when empty");
        assert_eq!((blocks[1].u16(0), blocks[2].u16(0)), (1, 197));
        assert_eq!(blocks[2].texts(IF_NAME), [&text(size + 1)]);
        assert_eq!(blocks[2].texts(IF_DESCRIPTION), ["a port"]);
        assert!(blocks[2].options.contains(&(IF_TSRESOL, vec![9])));

        let (received, unknown) = (&blocks[3], &blocks[4]);
        assert_eq!((received.u32(0), unknown.u32(0)), (1, 0));
        assert_eq!(
            (received.u32(4), received.u32(8)),
            (u32::MAX, u32::MAX - 5),
            "upper half first"
        );
        assert_eq!(received.data[16..], bytes, "behind the ERF header");
        assert_eq!(unknown.data, bytes);
        assert_eq!(unknown.u32(16) as usize, size, "the original length");
        assert_eq!(received.texts(OPT_COMMENT), comments);
        assert!(received.options.contains(&(EPB_FLAGS, vec![1, 0, 0, 0])));
        assert!(!unknown.options.iter().any(|(code, _)| *code == EPB_FLAGS));
    }
}

#[test]
fn long_comment_spans_several_options() {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let port = writer.interface(LinkType::InfiniBand, "p", "").unwrap();
    let long = format!("a{}", "ü".repeat(70_000));
    let comments = [long.clone(), String::new(), "last".to_string()];
    writer
        .packet(&Packet {
            comments: &comments,
            ..packet(port, &[1])
        })
        .unwrap();
    let blocks = read(&writer.into_inner());
    let parts = blocks[2].texts(OPT_COMMENT);
    assert_eq!(parts.len(), 4, "three pieces, then the last comment");
    assert_eq!(parts[..3].concat(), long);
    assert_eq!(parts[3], "last");
}

#[test]
fn rejected_packet_leaves_file_intact() {
    let mut other = Writer::new(Vec::new(), &Section::default()).unwrap();
    other.interface(LinkType::InfiniBand, "0", "").unwrap();
    let foreign = other.interface(LinkType::InfiniBand, "1", "").unwrap();

    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let port = writer.interface(LinkType::InfiniBand, "0", "").unwrap();
    let foreign = writer.packet(&packet(foreign, &[1])).unwrap_err();
    assert_eq!(foreign.kind(), io::ErrorKind::InvalidInput);
    let short = Packet {
        original_length: 1,
        ..packet(port, &[1, 2])
    };
    let short = writer.packet(&short).unwrap_err();
    assert_eq!(short.to_string(), "2 bytes captured of a packet of 1");
    let name = "x".repeat(65_536);
    assert!(writer.interface(LinkType::InfiniBand, &name, "").is_err());
    writer.packet(&packet(port, &[7])).unwrap();
    assert_eq!(read(&writer.into_inner()).len(), 3);
}

#[test]
fn sink_error_is_returned() {
    let mut room = [0; 32];
    let full = Writer::new(&mut room[..], &Section::default());
    assert!(full.is_ok(), "a header without texts has 32 bytes");
    let error = Writer::new(&mut room[..31], &Section::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
}
