//! The measurements, in a process that runs under the simulator's preload.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use verbatim_catalog::{TESTS, VERSION, judge};
use verbatim_record::{BundleWriter, Time, read_file};
use verbatim_rig::{OpenRig, RigConfig, RigFile, Session};
use verbatim_tester::{Arrival, Case, MemoryJournal, Rig, Stimulus, run as run_test};
use verbatim_wire::{AttributeId, Mad, Method};

pub(crate) fn run(mode: &str) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut open = verbatim_rig::open(&config(directory.path())?, Arc::new(AtomicBool::new(false)))?;
    match mode {
        "window 1" => round_trips(&mut open, 1),
        "window 16" => round_trips(&mut open, 16),
        "sweep bare" => bare_sweep(&mut open),
        "sweep recorded" => {
            recorded(&mut open, directory.path()).map(|(time, _)| println!("seconds={}", time.as_secs_f64()))
        }
        "sweep judged" => {
            let (_, file) = recorded(&mut open, directory.path())?;
            let start = Instant::now();
            let verdict = judge(read_file(&file)?)?;
            println!("seconds={}", start.elapsed().as_secs_f64());
            eprintln!("{}", verdict.outcome);
            Ok(())
        }
        "sweep bytes" => {
            let (_, file) = recorded(&mut open, directory.path())?;
            println!("bytes={}", std::fs::metadata(file)?.len());
            Ok(())
        }
        other => bail!("no mode {other:?}"),
    }
}

/// Returns the lab's rig, without the rig's environment variables, because this process already has them.
fn config(directory: &Path) -> anyhow::Result<RigConfig> {
    let file = directory.join("rigs.toml");
    let text = "config_version = 1\n[[rig]]\nname = \"ibsim\"\nkind = \"umad\"\ndevice = \"ibsim0\"\nport = 1\n\
        route = \"0,1\"\nsubnet_timeout = 18\n";
    std::fs::write(&file, text)?;
    Ok(RigFile::load(Some(&file))?.find("ibsim")?.clone())
}

fn real(open: &mut OpenRig) -> anyhow::Result<&mut dyn Rig> {
    match &mut open.session {
        Session::Real(rig) => Ok(rig.as_mut()),
        Session::Virtual(_) | Session::Closed => bail!("the rig must be real"),
    }
}

/// Sends the MADs with up to `window` outstanding, until all have a response. Returns the time taken.
fn pump(rig: &mut dyn Rig, mads: &mut dyn ExactSizeIterator<Item = Mad>, window: usize) -> anyhow::Result<Duration> {
    let (all, mut sent, mut answered) = (mads.len(), 0, 0);
    let start = Instant::now();
    while answered < all {
        while sent < all && sent - answered < window {
            let mad = mads
                .next()
                .context("as many as promised")?
                .with_transaction_id(sent as u64 + 1);
            rig.send(Stimulus::Mad(0, &mad))
                .map_err(|stop| anyhow::anyhow!("{stop:?}"))?;
            sent += 1;
        }
        match rig.wait(rig.now().after(Duration::from_secs(2))) {
            Arrival::Mad(..) => answered += 1,
            other => bail!("{other:?} after {answered} answers"),
        }
    }
    Ok(start.elapsed())
}

fn round_trips(open: &mut OpenRig, window: usize) -> anyhow::Result<()> {
    let count: usize = std::env::var("VERBATIM_BENCH_COUNT")?.parse()?;
    let mad = Mad::directed(Method::GET, AttributeId::NODE_INFO, 0, &[1]);
    let took = pump(real(open)?, &mut (0..count).map(|_| mad), window)?;
    println!("round_trips_per_s={:.0}", count as f64 / took.as_secs_f64());
    Ok(())
}

/// Sends the MADs of the sweep and counts the responses, without a record or a verdict.
fn bare_sweep(open: &mut OpenRig) -> anyhow::Result<()> {
    let data: Vec<u8> = (0..16u8).flat_map(|entry| [0, entry | 1]).collect();
    let window = open.info.window;
    let mut mads = (0..131_072u32).map(|number| {
        let method = if number < 65_536 { Method::SET } else { Method::GET };
        let mad = Mad::directed(method, AttributeId::VL_ARBITRATION, (number & 0xFFFF) << 16, &[1]);
        if method == Method::SET {
            mad.with_data(&data[..16])
        } else {
            mad
        }
    });
    let mut exact = ExactSize {
        inner: &mut mads,
        left: 131_072,
    };
    let took = pump(real(open)?, &mut exact, window)?;
    println!("seconds={}", took.as_secs_f64());
    Ok(())
}

struct ExactSize<'a> {
    inner: &'a mut dyn Iterator<Item = Mad>,
    left: usize,
}

impl Iterator for ExactSize<'_> {
    type Item = Mad;
    fn next(&mut self) -> Option<Mad> {
        self.left = self.left.saturating_sub(1);
        self.inner.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for ExactSize<'_> {}

/// Runs the whole test with its record on disk; returns the time taken and the path of the record.
fn recorded(open: &mut OpenRig, directory: &Path) -> anyhow::Result<(Duration, std::path::PathBuf)> {
    let test = TESTS
        .iter()
        .find(|test| test.id == "c14-024-vl-arbitration-ca")
        .context("the sweep's test")?;
    let case = Case {
        test,
        seed: 1,
        parameters: Vec::new(),
        catalogue: VERSION.into(),
    };
    let mut bundle = BundleWriter::create(&directory.join("record"))?;
    let info = open.info.clone();
    let start = Instant::now();
    let mut sink = bundle.record(test.id)?;
    let ran = run_test(real(open)?, &info, &mut sink, &mut MemoryJournal::default(), &case);
    sink.finish(Time(0))?;
    let took = start.elapsed();
    if let Some(stopped) = ran.stopped {
        bail!("{stopped:?}");
    }
    Ok((took, directory.join("record/001-c14-024-vl-arbitration-ca.rec")))
}
