//! Compares `verbatim inspect --rc` with tshark on one capture of 64 sound reliable connections. Also measures the
//! memory of `verbatim inspect --rc` while it reads gigabytes of capture from a pipe.
//!
//! `cargo bench -p verbatim-tests --bench inspect_rc [-- --packets N] [--pairs N] [--mib N] [--program PATH]
//! [--strict]`. The bench measures processor time, with one thread for each program. Runs are interleaved; the result
//! is the median of the pairwise ratios. `--strict`: exit code 1 when a goal is missed.

#[path = "../shared/command.rs"]
mod command;
#[path = "../shared/rate.rs"]
mod rate;
mod traffic;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use command::{exit, option};
use rate::{rate, report};
use traffic::Traffic;

const MIB: u64 = 1 << 20;
/// Limit of a ratio: peak memory after the whole capture, divided by peak memory after its first sixteenth.
const FLAT: f64 = 1.1;

fn main() -> ExitCode {
    exit("inspect_rc", run)
}

fn run() -> anyhow::Result<bool> {
    let (packets, pairs, mib) = (
        option("--packets", 300_000)?,
        option("--pairs", 5)?,
        option("--mib", 2048)?,
    );
    let verbatim = rate::verbatim()?;
    let place = tempfile::tempdir()?;
    let capture = place.path().join("rc.pcap");
    let packets = write(&capture, packets)?;
    let ours = || rate(packets, Command::new(&verbatim).args(["inspect", "--rc"]).arg(&capture));
    let tshark = || {
        let fields = ["-n", "-T", "fields", "-e", "infiniband.bth.psn", "-r"];
        rate(packets, Command::new("tshark").args(fields).arg(&capture))
    };
    ours()?; // brings the file into the page cache
    let (mut rates, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        rates.push(ours()?);
        ratios.push(rates.last().context("there is one")? / tshark()?);
    }
    println!("{packets} packets of 64 reliable connections, every packet judged, one core each");
    let mut good = report("packets/s, --rc", &mut rates, 5e5);
    good &= report("times tshark -T fields -e infiniband.bth.psn", &mut ratios, 5.0);
    Ok(good & memory(&verbatim, mib as u64)?)
}

/// Writes a capture of at least `packets` packets, and returns the actual number.
fn write(path: &Path, packets: usize) -> anyhow::Result<u32> {
    let mut out = BufWriter::new(fs::File::create(path)?);
    let mut traffic = Traffic::begin(&mut out)?;
    while (traffic.packets() as usize) < packets {
        traffic.round(&mut out)?;
    }
    out.flush()?;
    Ok(traffic.packets())
}

/// Compares the program's peak memory after the first sixteenth of a capture of `mib` MiB with its peak memory at the
/// end. Returns whether the goal is reached.
fn memory(verbatim: &Path, mib: u64) -> anyhow::Result<bool> {
    let mut child = Command::new(verbatim)
        .args(["inspect", "--rc", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut stdin = Counted {
        to: child.stdin.take().context("stdin is piped")?,
        bytes: 0,
    };
    let most = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.with_context(|| format!("no VmHWM in {status}"))
    };
    let mut traffic = Traffic::begin(&mut stdin)?;
    let mut at_first = None;
    while stdin.bytes < mib * MIB {
        traffic.round(&mut stdin)?;
        if at_first.is_none() && stdin.bytes >= mib * MIB / 16 {
            at_first = Some(most()?);
        }
    }
    let (first, all) = (at_first.context("a sixteenth was written")?, most()?);
    drop(stdin);
    let status = child.wait()?;
    if !status.success() {
        bail!("it ended with {status} on a sound capture");
    }
    let reached = all <= first * FLAT;
    println!(
        "memory over {mib} MiB: {:.1} MiB after a sixteenth, {:.1} MiB at the end, goal at most {FLAT} times: {}",
        first / 1024.0,
        all / 1024.0,
        if reached { "reached" } else { "MISSED" }
    );
    Ok(reached)
}

struct Counted<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = self.to.write(bytes)?;
        self.bytes += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
