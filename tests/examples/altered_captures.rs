//! Inspects captures with bytes changed, inserted, removed or cut off. `verbatim inspect`, with and without `--rc`,
//! must not crash or hang.
//!
//! `cargo xtask campaign inspect --times 20000`. The last line has the counts. The exit code is 1 when a run crashed or
//! hung; the campaign then keeps the capture as a file. The exit code is 2 when the campaign could not begin.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, bail};
use verbatim_lab::workspace::root;

/// Longest time of an inspection of a few kilobytes, on the busiest host.
const LIMIT: Duration = Duration::from_secs(60);
/// Size limit of the captures in bytes. Larger captures take longer without finding more.
const LARGEST: u64 = 64 << 10;

struct Arguments {
    times: u64,
    seed: u64,
    binaries: PathBuf,
}

fn main() -> ExitCode {
    match campaign() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("campaign inspect: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> anyhow::Result<Arguments> {
    let (mut times, mut seed, mut binaries) = (20_000, 1, None);
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().with_context(|| format!("{name} expects a value"))?;
        let number = || {
            value
                .parse()
                .with_context(|| format!("{name} expects a whole number, not {value:?}"))
        };
        match name.as_str() {
            "--times" => times = number()?,
            "--seed" => seed = number()?,
            "--binaries" => binaries = Some(PathBuf::from(value)),
            _ => bail!("no option {name:?}; there are --times N, --seed N, --binaries DIRECTORY"),
        }
    }
    let binaries = binaries.context("--binaries DIRECTORY is missing: where verbatim is")?;
    Ok(Arguments { times, seed, binaries })
}

fn campaign() -> anyhow::Result<bool> {
    let arguments = arguments()?;
    let captures = captures()?;
    let place = tempfile::tempdir()?;
    let jobs = thread::available_parallelism().map_or(1, usize::from) as u64;
    let found: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = (0..jobs)
            .map(|job| {
                let (arguments, captures, place) = (&arguments, &captures, place.path());
                scope.spawn(move || {
                    let numbers = (job..arguments.times).step_by(jobs as usize);
                    numbers
                        .filter_map(|number| tried(arguments, captures, place, number).transpose())
                        .collect()
                })
            })
            .collect();
        let ended = running
            .into_iter()
            .map(|job| job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<anyhow::Result<Vec<Vec<String>>>>()
    })?
    .concat();
    for finding in &found {
        println!("{finding}");
    }
    let (times, count) = (arguments.times, captures.len());
    println!(
        "{times} altered captures of {count} (seed {}); {} crashed or hung",
        arguments.seed,
        found.len()
    );
    Ok(found.is_empty())
}

/// Returns the captures of the documentation and of the tests.
fn captures() -> anyhow::Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for directory in ["docs/examples", "tests/data/captures"] {
        let directory = root().join(directory);
        let entries = fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.to_string_lossy();
            let is_capture = [".pcap", ".cap", ".erf", ".gz", ".zst"]
                .iter()
                .any(|end| name.ends_with(end));
            if is_capture && fs::metadata(&path)?.len() <= LARGEST {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: PathBuf| fs::read(&path).with_context(|| format!("reading {}", path.display()));
    paths.into_iter().map(read).collect()
}

/// Inspects altered capture `number`; returns a description of the failure, if any.
fn tried(arguments: &Arguments, captures: &[Vec<u8>], place: &Path, number: u64) -> anyhow::Result<Option<String>> {
    let mut drawn = Drawn(arguments.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number);
    let mut bytes = captures[drawn.below(captures.len())].clone();
    for _ in 0..=drawn.below(4) {
        alter(&mut drawn, &mut bytes);
    }
    let file = place.join(format!("{number}"));
    fs::write(&file, &bytes)?;
    let options: &[&str] = [
        &["inspect"][..],
        &["inspect", "--rc"],
        &["inspect", "--rc", "--lossless", "--json"],
    ][drawn.below(3)];
    let mut child = Command::new(arguments.binaries.join("verbatim"))
        .args(options)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take().context("stderr is piped")?;
    let reader = thread::spawn(move || std::io::read_to_string(stderr));
    let (told, done) = std::sync::mpsc::channel();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id())?);
    let guard = thread::spawn(move || {
        let hung = done.recv_timeout(LIMIT).is_err();
        if hung {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        hung
    });
    let status = child.wait()?;
    let _ = told.send(());
    let hung = guard.join().unwrap_or(true);
    let stderr = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    let is_sound = matches!(status.code(), Some(0..=4)) && !stderr.contains("panicked");
    if is_sound && !hung {
        fs::remove_file(&file)?;
        return Ok(None);
    }
    let kept = std::env::temp_dir().join(format!("verbatim-altered-{}-{number}", arguments.seed));
    fs::copy(&file, &kept)?;
    let ended = if hung {
        format!("no end within {LIMIT:?}")
    } else {
        status.to_string()
    };
    Ok(Some(format!(
        "verbatim {} {}: {ended}; {}",
        options.join(" "),
        kept.display(),
        stderr.trim()
    )))
}

/// Changes a capture at one place.
fn alter(drawn: &mut Drawn, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = drawn.below(bytes.len());
    let end = (at + 1 + drawn.below(64)).min(bytes.len());
    match drawn.below(6) {
        0 => bytes[at] ^= 1 << drawn.below(8),
        1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][drawn.below(5)],
        // Overwrites a length, a count or a type.
        2 => bytes[at..end.min(at + 4)].fill([0, 0xFF][drawn.below(2)]),
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        _ => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
    }
}

/// Pseudo-random numbers (SplitMix64).
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap_or(0)
    }
}
