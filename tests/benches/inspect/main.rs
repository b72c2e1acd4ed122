//! Compares `verbatim inspect` with tshark and scapy on one capture of RoCEv2 packets, with 1 KiB of payload by
//! default. The bench prints the ratios.
//!
//! `cargo bench -p verbatim-tests --bench inspect [-- --packets N] [--payload BYTES] [--pairs N] [--strict]`. The bench
//! measures processor time, with one thread for each program. Runs are interleaved; the result is the median of the
//! pairwise ratios. scapy would take minutes for the whole capture, so it reads only the first packets, and the bench
//! compares packet rates. `--strict`: exit code 1 when a goal is missed.

#![allow(clippy::cast_precision_loss)] // for rates

#[path = "../shared/command.rs"]
mod command;
#[path = "../shared/rate.rs"]
mod rate;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use command::{exit, option};
use rate::{rate, report};
use verbatim_wire::packet::packet;
use verbatim_wire::{Bth, MacAddress, Network, Opcode, PKey, Psn, Qpn, Station, Transport};

/// Default payload size, in bytes.
const PAYLOAD: usize = 1024;
/// Number of packets in scapy's capture.
const FOR_SCAPY: u32 = 2_000;

/// The same work in scapy: reads each packet, computes the ICRC and compares it with the packet's ICRC.
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
    exit("inspect", run)
}

fn run() -> anyhow::Result<bool> {
    let (packets, pairs) = (u32::try_from(option("--packets", 200_000)?)?, option("--pairs", 5)?);
    let payload = option("--payload", PAYLOAD)?;
    let place = tempfile::tempdir()?;
    let (all, few) = (place.path().join("all.pcap"), place.path().join("few.pcap"));
    write(&all, packets, payload)?;
    write(&few, FOR_SCAPY, payload)?;
    let verbatim = rate::verbatim()?;
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
    filtered(&all)?; // brings the file into the page cache

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
    println!("{packets} RoCEv2 packets, {payload} bytes of payload, every ICRC checked, one core each");
    let mut good = report("packets/s, --only discarded", &mut rates, 1e6);
    good &= report("times tshark -T fields, --only discarded", &mut to_tshark, 20.0);
    report("times tshark -T fields, with a line for each packet", &mut tables, 1.0);
    if python.is_some() {
        good &= report("times scapy with ICRC, --only discarded", &mut to_scapy, 500.0);
    } else {
        println!("scapy is not there: `cargo test -p verbatim-tests --test product scapy_agrees` fetches it");
    }
    Ok(good)
}

/// Returns the Python of the environment that the scapy tests made, if it exists.
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

fn write(path: &Path, packets: u32, size: usize) -> anyhow::Result<()> {
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
        let payload = (0..size).map(|at| (at as u32 ^ number).to_le_bytes()[0]).collect();
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
