//! Compares the processor time of a received packet (parse, ICRC check, write to a record) with that of a CRC over the
//! same bytes. The bench prints the ratios.
//!
//! `cargo bench -p verbatim-tests --bench packets [-- --pairs N] [--packets N] [--strict]`. Packets have 1 KiB of
//! payload. The bench measures the processor time of the thread that handles the packets, kernel time included. A
//! second line adds the time of the record's own thread, which delays no packet. The speed of a shared machine's
//! processor varies, so short measurements alternate. `--strict`: exit code 1 when the goal is missed.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // for ratios

#[path = "../shared/command.rs"]
mod command;
#[path = "../shared/ratio.rs"]
mod ratio;

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use nix::time::{ClockId, clock_gettime};
use verbatim_record::{Bytes, Entry, FileSink, Frame, Sink, Span, Time};
use verbatim_wire::packet::packet;
use verbatim_wire::{Bth, MacAddress, Medium, Network, Opcode, PKey, Packet, Psn, Qpn, Station, Transport};

const PAYLOAD: usize = 1024;
/// Number of different packets, which are used in turn. The packets fit into the processor's cache, like a packet that
/// was just received.
const DIFFERENT: u32 = 16;

fn main() -> ExitCode {
    command::exit("packets", run)
}

fn run() -> anyhow::Result<bool> {
    let (pairs, packets) = (command::option("--pairs", 101)?, command::option("--packets", 20_000)?);
    let frames: Vec<Bytes> = (0..DIFFERENT).map(frame).map(Bytes::from).collect();
    let directory = tempfile::tempdir().context("a directory for records")?;
    let path = directory.path().join("packets.rec");
    let (mut whole, mut all, mut checked, mut kept, mut alone) = <(Vec<_>, Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    for _ in 0..pairs {
        let crc = time(|| crc_alone(&frames, packets));
        let mut done = Ok(());
        let start = processor_time(ClockId::CLOCK_PROCESS_CPUTIME_ID);
        whole.push(time(|| done = recorded(&frames, packets, &path)) / crc);
        all.push((processor_time(ClockId::CLOCK_PROCESS_CPUTIME_ID) - start) / crc);
        done?;
        std::fs::remove_file(&path).context("removing a record")?;
        checked.push(time(|| parsed(&frames, packets)) / crc);
        kept.push(time(|| entered(&frames, packets)) / crc);
        alone.push(crc * 1e9 / packets as f64);
    }
    println!("the CRC alone: {:.0} ns a packet", ratio::quantile(&mut alone, 0.5));
    let reached = ratio::report(
        "parsed, ICRC checked and recorded to a file, against the CRC alone",
        &mut whole,
        Some(3.0),
    );
    ratio::report("with the thread that encodes and writes the record", &mut all, None);
    ratio::report("of that, parsed and ICRC checked", &mut checked, None);
    ratio::report("of that, parsed, ICRC checked and kept as an entry", &mut kept, None);
    Ok(reached)
}

fn frame(number: u32) -> Vec<u8> {
    let station = |end: u8| Station {
        mac: MacAddress([2, 0, 0, 0, 0, end]),
        ip: [10, 0, 0, end].into(),
        udp_port: 0xc123,
    };
    let transport = Transport {
        bth: Bth::default()
            .with_opcode(Opcode::RC_SEND_ONLY)
            .with_p_key(PKey(0xffff))
            .with_dest_qp(Qpn(0x11))
            .with_psn(Psn(number)),
        payload: (0..PAYLOAD).map(|at| (at as u32 ^ number) as u8).collect(),
        ..Transport::default()
    };
    packet(&Network::roce_v2(&station(1), &station(2)), &transport)
}

/// Returns the processor time of this thread during `work`, in seconds.
fn time(work: impl FnOnce()) -> f64 {
    let start = processor_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
    work();
    processor_time(ClockId::CLOCK_THREAD_CPUTIME_ID) - start
}

fn processor_time(clock: ClockId) -> f64 {
    let now = clock_gettime(clock).expect("the clock is there");
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}

fn in_turn(frames: &[Bytes], count: usize) -> impl Iterator<Item = &Bytes> {
    frames.iter().cycle().take(count)
}

fn crc_alone(frames: &[Bytes], count: usize) {
    for frame in in_turn(frames, count) {
        black_box(crc32fast::hash(black_box(frame)));
    }
}

fn is_sound(frame: &[u8]) -> bool {
    Packet::parse(Medium::Ethernet, black_box(frame)).is_ok_and(|packet| packet.icrc_is_right())
}

fn parsed(frames: &[Bytes], count: usize) {
    for frame in in_turn(frames, count) {
        assert!(black_box(is_sound(frame)));
    }
}

/// Returns the record entry that the tester makes of a received frame. The entry shares the frame's bytes.
fn entry(number: usize, frame: &Bytes) -> Entry {
    Entry::Frame(Frame {
        number: number as u32,
        label: 0,
        port: 0,
        received: true,
        at: Span::between(Time(number as u64 * 1000), Time(number as u64 * 1000 + 700)),
        bytes: frame.clone(),
        delimiter: None,
    })
}

fn entered(frames: &[Bytes], count: usize) {
    for (number, frame) in in_turn(frames, count).enumerate() {
        assert!(is_sound(frame));
        black_box(entry(number, frame));
    }
}

fn recorded(frames: &[Bytes], count: usize, path: &Path) -> anyhow::Result<()> {
    let mut sink = FileSink::create(path).context("making a record")?;
    for (number, frame) in in_turn(frames, count).enumerate() {
        ensure!(is_sound(frame), "packet {number} is not sound");
        sink.put(entry(number, frame));
    }
    sink.finish(Time(count as u64 * 1000)).context("finishing the record")
}
