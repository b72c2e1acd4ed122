//! `verbatim inspect` against tshark and scapy on one capture of RoCEv2 packets with 1 KiB of payload; ratios printed.
//!
//! `cargo bench -p verbatim-tests --bench inspect [-- --packets N] [--pairs N] [--strict]`. Counted is the time on the
//! processor, of one thread each; runs are interleaved, and the median of the pairwise ratios is what counts. scapy gets
//! the first packets of the same capture, and its rate counts: all of them would take it minutes. `--strict`: exit code
//! 1 when a goal is missed.

#![allow(clippy::cast_precision_loss)] // rates

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use verbatim_tests::product::program;
use verbatim_wire::packet::packet;
use verbatim_wire::{Bth, MacAddress, Network, Opcode, PKey, Psn, Qpn, Station, Transport};

const PAYLOAD: usize = 1024;
/// Packets that scapy is given.
const FOR_SCAPY: u32 = 2_000;

/// What scapy does for the same: reads each packet, reckons its ICRC and compares.
const SCAPY: &str = r"
import sys
from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether
from scapy.utils import PcapReader
wrong = 0
for packet in PcapReader(sys.argv[1]):
    bth = packet[BTH]
    carried = bytes(packet)[-4:]
    bth.icrc = None
    wrong += bytes(packet)[-4:] != carried
print(wrong)
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) if !std::env::args().any(|argument| argument == "--strict") => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench inspect: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn option(name: &str, usual: u32) -> anyhow::Result<u32> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == name) {
        Some(at) => Ok(arguments.get(at + 1).with_context(|| format!("{name} N"))?.parse()?),
        None => Ok(usual),
    }
}

fn run() -> anyhow::Result<bool> {
    let (packets, pairs) = (option("--packets", 200_000)?, option("--pairs", 5)?);
    let place = tempfile::tempdir()?;
    let (all, few) = (place.path().join("all.pcap"), place.path().join("few.pcap"));
    write(&all, packets)?;
    write(&few, FOR_SCAPY)?;
    let verbatim = program("verbatim");
    let filtered = |file: &Path| {
        rate(
            packets,
            Command::new(&verbatim)
                .arg("inspect")
                .arg(file)
                .args(["--only", "discarded"]),
        )
    };
    let table = |file: &Path| rate(packets, Command::new(&verbatim).arg("inspect").arg(file));
    let tshark = || {
        let fields = [
            "-n",
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "infiniband.bth.opcode",
            "-r",
        ];
        rate(packets, Command::new("tshark").args(fields).arg(&all))
    };
    let python = scapy();
    filtered(&all)?; // the file is in memory from here on

    let (mut rates, mut to_tshark, mut tables, mut to_scapy) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs {
        let ours = filtered(&all)?;
        rates.push(ours);
        let theirs = tshark()?;
        to_tshark.push(ours / theirs);
        tables.push(table(&all)? / theirs);
        if let Some(python) = &python {
            let scapy = rate(FOR_SCAPY, Command::new(python).args(["-c", SCAPY]).arg(&few))?;
            to_scapy.push(ours / scapy);
        }
    }
    println!("{packets} RoCEv2 packets, {PAYLOAD} bytes of payload, every ICRC checked, one core each");
    let mut good = report("packets/s, --only discarded", &mut rates, 1e6);
    good &= report("times tshark -T fields, --only discarded", &mut to_tshark, 20.0);
    report("times tshark -T fields, with a line for each packet", &mut tables, 1.0);
    if python.is_some() {
        good &= report("times scapy with ICRC, --only discarded", &mut to_scapy, 500.0);
    } else {
        println!("scapy is not there: `cargo test -p verbatim-tests --test scapy_agrees` fetches it");
    }
    Ok(good)
}

/// The environment that the tests of scapy have made.
fn scapy() -> Option<PathBuf> {
    let oracles = verbatim_lab::workspace::target_directory().ok()?.join("oracles");
    let mut made: Vec<PathBuf> = std::fs::read_dir(oracles)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/python")))
        .filter(|python| python.exists())
        .collect();
    made.sort();
    made.pop()
}

fn write(path: &Path, packets: u32) -> anyhow::Result<()> {
    let station = |last| Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip: std::net::IpAddr::from([10, 0, 0, last]),
        udp_port: 0xC001,
    };
    let network = Network::roce_v2(&station(1), &station(2));
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    let header: [u32; 6] = [0xA1B2_C3D4, 0x0004_0002, 0, 0, 262_144, 1];
    out.write_all(&header.map(u32::to_le_bytes).concat())?;
    for number in 0..packets {
        let bth = Bth::default()
            .with_opcode(Opcode::RC_SEND_ONLY)
            .with_p_key(PKey(0xFFFF))
            .with_dest_qp(Qpn(0x11))
            .with_psn(Psn::new(number));
        let payload = (0..PAYLOAD).map(|at| (at as u32 ^ number).to_le_bytes()[0]).collect();
        let transport = Transport {
            bth,
            payload,
            ..Transport::default()
        };
        let frame = packet(&network, &transport);
        let length = u32::try_from(frame.len())?;
        let record: [u32; 4] = [number / 1_000_000, number % 1_000_000, length, length];
        out.write_all(&record.map(u32::to_le_bytes).concat())?;
        out.write_all(&frame)?;
    }
    out.flush()?;
    Ok(())
}

/// Packets per second that a program is on the processor, so that a busy machine does not count.
fn rate(packets: u32, command: &mut Command) -> anyhow::Result<f64> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{}", command.get_program().display()))?;
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    io::copy(&mut stdout, &mut io::sink())?;
    // It has written all and is not yet waited for, so its times are still there: the first is its own, in nanoseconds.
    let times = fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    let busy: f64 = times.split(' ').next().context("no time in schedstat")?.parse()?;
    Ok(f64::from(packets) * 1e9 / busy)
}

fn report(what: &str, values: &mut [f64], least: f64) -> bool {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    let reached = median >= least;
    println!(
        "{what}: median {median:.0} of {} ({:.0}..{:.0}), goal at least {least}: {}",
        values.len(),
        values[0],
        values[values.len() - 1],
        if reached { "reached" } else { "MISSED" }
    );
    reached
}
