//! Measures the round-trip time of a frame through the packet peer on a veth pair. The rig receives the frame, parses
//! it, checks the ICRC and responds with an ACK. The bench compares with a loop in C that sends each frame back, and
//! prints the ratios.
//!
//! `cargo bench -p verbatim-tests --bench turnaround [-- --pairs N] [--frames N] [--strict]`. Needs root: the bench
//! runs in its own network namespace. `--strict`: exit code 1 when the goal is missed.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // for ratios

#[path = "../shared/command.rs"]
mod command;
mod peer;
#[path = "../shared/ratio.rs"]
mod ratio;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use verbatim_hw::ether::PacketSocket;
use verbatim_lab::build_c_programs;
use verbatim_wire::packet::packet;
use verbatim_wire::{
    Bth, EtherType, Ethernet, Layout, MacAddress, Network, Opcode, PKey, Psn, Qpn, Station, Transport,
};

/// Environment variable of the child processes. Value `inside`: the process in the namespace. Value `peer`: the packet
/// peer.
const MODE: &str = "VERBATIM_BENCH_MODE";
/// The interface of the side that measures, and the interface of the side that responds.
const ENDS: [&str; 2] = ["bench0", "bench1"];
/// Frames sent before the first measured frame.
const WARM_UP: usize = 200;
const BOUND: Duration = Duration::from_secs(5);
const PAYLOAD: usize = 256;

fn main() -> ExitCode {
    command::exit("turnaround", || match std::env::var(MODE).as_deref() {
        Ok("inside") => inside(),
        Ok("peer") => peer::serve(ENDS[1]).map(|()| true),
        _ => outside(),
    })
}

/// Starts this program again in a new network namespace. Builds the C programs first, outside the namespace.
fn outside() -> anyhow::Result<bool> {
    build_c_programs()?;
    let status = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(MODE, "inside")
        .status()
        .context("unshare (of util-linux) could not be started")?;
    match status.code() {
        Some(0) => Ok(true),
        // The child has printed the reason. With `--strict` the reason may be a missed goal.
        _ => bail!("the process in the network namespace ended with {status}; root is needed"),
    }
}

pub(crate) fn station(end: u8) -> Station {
    Station {
        mac: MacAddress([2, 0, 0, 0, 0, end]),
        ip: [10, 0, 0, end].into(),
        udp_port: 0xc123,
    }
}

fn inside() -> anyhow::Result<bool> {
    let (pairs, frames) = (command::option("--pairs", 11)?, command::option("--frames", 2000)?);
    let c = build_c_programs()?.join("echo");
    ip(&["link", "add", ENDS[0], "type", "veth", "peer", "name", ENDS[1]])?;
    for end in ENDS {
        // Without this setting, the kernel would send neighbour discovery packets.
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").context("IPv6 off")?;
        ip(&["link", "set", end, "up"])?;
    }
    let socket = PacketSocket::open(ENDS[0])?;
    let echo = || Answerer::start(Command::new(&c).args([ENDS[1], "0x0800"]));
    let ours = || Answerer::start(Command::new(std::env::current_exe()?).env(MODE, "peer"));
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let (ours, theirs) = (measure(&socket, ours, frames)?, measure(&socket, echo, frames)?);
        println!(
            "ours p50 {:.1} us, p99 {:.1} us; C p50 {:.1} us, p99 {:.1} us",
            ours.0 * 1e6,
            ours.1 * 1e6,
            theirs.0 * 1e6,
            theirs.1 * 1e6
        );
        p50.push(ours.0 / theirs.0);
        p99.push(ours.1 / theirs.1);
    }
    let reached = ratio::report(
        "turn-around of the packet peer, p50, against recvfrom and sendto in C",
        &mut p50,
        Some(1.5),
    );
    ratio::report("the same, p99", &mut p99, None);
    Ok(reached)
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .context("ip (of iproute2)")?;
    ensure!(
        output.status.success(),
        "ip {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// A process that responds to frames.
struct Answerer(Child);

impl Answerer {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let words = format!("{command:?}");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut this = Self(child.context(words.clone())?);
        let mut line = String::new();
        if let Some(stdout) = this.0.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        ensure!(line.trim() == "ready", "{words} did not get ready: {line:?}");
        Ok(this)
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        // The process ends when its input is closed. The kill is for a process that hangs.
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the p50 and p99 of the round-trip times in seconds. A round trip lasts from the kernel's timestamp of a sent
/// frame to that of its response.
fn measure(
    socket: &PacketSocket,
    answerer: impl FnOnce() -> anyhow::Result<Answerer>,
    frames: usize,
) -> anyhow::Result<(f64, f64)> {
    let _answerer = answerer()?;
    let mut times = Vec::with_capacity(frames);
    for number in 0..WARM_UP + frames {
        let sent = socket.send(&request(number as u32)).context("sending")?;
        let took = loop {
            let frame = socket
                .receive(BOUND)?
                .with_context(|| format!("frame {number} was not answered within {BOUND:?}"))?;
            if is_answer(&frame.bytes) {
                break frame.stamp.latest.saturating_sub(sent.earliest);
            }
        };
        if number >= WARM_UP {
            times.push(took.as_secs_f64());
        }
    }
    Ok((ratio::quantile(&mut times, 0.5), ratio::quantile(&mut times, 0.99)))
}

fn request(number: u32) -> Vec<u8> {
    let transport = Transport {
        bth: Bth::default()
            .with_opcode(Opcode::RC_SEND_ONLY)
            .with_ack_request(true)
            .with_p_key(PKey(0xffff))
            .with_dest_qp(Qpn(0x11))
            .with_psn(Psn::new(number)),
        payload: vec![number as u8; PAYLOAD],
        ..Transport::default()
    };
    packet(&Network::roce_v2(&station(1), &station(2)), &transport)
}

fn is_answer(frame: &[u8]) -> bool {
    let header = frame.get(..Ethernet::SIZE).map(Ethernet::from_bytes);
    header.is_some_and(|header| header.ethertype() == EtherType::IPV4 && header.dst() == station(1).mac)
}
