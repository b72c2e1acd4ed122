//! Files that are not captures, truncated captures, and output that cannot be written. Each must give a clear error.

use std::fs::File;
use std::process::Stdio;

use verbatim_capture::pcapng::LinkType;
use verbatim_tests::product::{Output, Place, run};

use crate::inspect::kinds::roce;
use crate::inspect::{pcap_header, pcap_packet, pcapng};

/// Runs `verbatim inspect`, expects a usage error, and returns stderr.
fn refused(place: &Place, arguments: &str) -> String {
    let output = run(&mut place.verbatim(&format!("inspect {arguments}")));
    assert_eq!(output.code(), 2, "{output}");
    assert_eq!(output.stdout, "", "{arguments}");
    assert!(!output.stderr.contains("panicked"), "{output}");
    output.stderr
}

#[test]
fn rejects_lid_not_aligned_to_lmc() {
    let place = Place::new();
    place.write("empty", "");
    let said = refused(&place, "empty --lid 5 --lmc 2");
    assert!(
        said.contains("the first a multiple of 4; expected --lid 0x0004"),
        "{said}"
    );
    let said = refused(&place, "empty --lid 2 --lmc 2");
    assert!(said.contains("expected --lid 0x0004"), "{said}");
    for fits in ["--lid 8 --lmc 3", "--lid 5", "--lid 5 --lmc 0"] {
        let said = refused(&place, &format!("empty {fits}"));
        assert!(said.contains("the file is empty"), "{said}");
    }
}

#[test]
fn rejects_files_that_are_no_capture() {
    let place = Place::new();
    place.write("empty", "");
    place.write("text", "No. Time Source\n");
    place.write("xz", [0xFD, b'7', b'z', b'X', b'Z', 0]);
    for (file, words) in [
        ("empty", "seen nothing; the file is empty"),
        ("text", "expected a capture, which begins with "),
        ("xz", "xz -dc FILE | verbatim inspect -"),
        (".", "expected a capture, seen a directory"),
        ("missing", "cannot open the capture: No such file or directory"),
    ] {
        let said = refused(&place, file);
        assert!(said.contains(words), "{said}");
        assert!(said.starts_with(&format!("verbatim: {file}: ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn rejects_wrong_options() {
    let place = Place::new();
    for (options, words) in [
        ("--lid 0", "expected a port's LID, 0x0001 to 0xbfff"),
        ("--lid 0xC000", "expected a port's LID, 0x0001 to 0xbfff"),
        ("--lmc 8", "0..=7"),
        ("--mtu-cap 1500", "expected 256, 512, 1024, 2048 or 4096"),
        ("--vls 0", "1..=15"),
        ("--vls 16", "1..=15"),
        ("--p-keys 0xffff,x", "expected a number of 16 bits, such as 0x8001"),
        ("--p-keys 65536", "expected a number of 16 bits"),
        ("--kind hub", "ca"),
        ("--only bad", "discarded"),
        ("--not-destination", "a channel adapter forwards no packets"),
    ] {
        let said = refused(&place, &format!("x {options}"));
        assert!(said.contains(words), "{options}: {said}");
    }
}

/// Writes a capture of five packets. The last packet is broken.
fn five(place: &Place) -> std::path::PathBuf {
    let sound = roce(64)[0].clone();
    let mut broken = sound.clone();
    broken[60] ^= 1;
    let packets = [&sound[..], &sound, &sound, &sound, &broken];
    place.write("five.pcapng", pcapng(LinkType::Ethernet, packets))
}

fn cut(place: &Place, bytes: usize) -> Output {
    let whole = std::fs::read(five(place)).unwrap();
    let file = place.write("cut.pcapng", &whole[..whole.len() - bytes]);
    run(&mut place.verbatim(&format!("inspect {}", file.display())))
}

#[test]
fn truncated_capture_is_judged_to_its_end() {
    let place = Place::new();
    let output = cut(&place, 7);
    assert_eq!(output.code(), 3, "{output}");
    assert!(
        output
            .stdout
            .contains("4 packets: 4 accepted, 0 discarded, 0 not judged"),
        "{output}"
    );
    assert!(
        output
            .stderr
            .contains("the capture ends within an enhanced packet block at byte "),
        "{output}"
    );
    assert_eq!(output.stderr.lines().count(), 1);
}

#[test]
fn damaged_capture_is_judged_to_damage() {
    let place = Place::new();
    let sound = pcap_packet(&roce(64)[0]);
    let mut broken = sound.clone();
    broken[8..12].fill(0xFF);
    let file = place.write("damaged.pcap", [pcap_header(1), sound.clone(), broken, sound].concat());
    let output = run(&mut place.verbatim(&format!("inspect {}", file.display())));
    assert_eq!(output.code(), 3, "{output}");
    assert!(output.stdout.contains("1 packet: 1 accepted"), "{output}");
    assert!(output.stderr.contains("the capture is damaged at byte "), "{output}");
}

#[test]
fn closed_pipe_is_quiet_full_disk_is_not() {
    let place = Place::new();
    let file = five(&place);
    for options in ["", "--json", "--only discarded"] {
        let command = format!("inspect {} {options}", file.display());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = place
            .verbatim(&command)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(
            (closed.status.code(), &closed.stderr[..]),
            (Some(3), &b""[..]),
            "{options}"
        );

        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = place
            .verbatim(&command)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8(full.stderr).unwrap();
        assert_eq!(full.status.code(), Some(3), "{said}");
        assert!(
            said.contains("No space left on device") && said.lines().count() == 1,
            "{said}"
        );
    }
}
