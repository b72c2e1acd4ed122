//! Makes a bundle like that of a long run: repeats the records of one bundle many times and seals the result.
//!
//! `million FROM TO TIMES`: for measurements of large bundles ([docs/performance.md](../../docs/performance.md)).
//! Unlike the bundle of a long run, the result has many records with the same test name.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use verbatim_record::{BundleWriter, Entry, Sink, Time, read_file};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("million: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, times] = arguments.as_slice() else {
        bail!("usage: million FROM TO TIMES");
    };
    let (from, times): (&Path, usize) = (from.as_ref(), times.parse().context("TIMES")?);
    let mut writer = BundleWriter::create(to.as_ref())?;
    let mut records: Vec<_> = std::fs::read_dir(from)?
        .map(|file| Ok(file?.path()))
        .collect::<std::io::Result<_>>()?;
    records.retain(|path| path.extension().is_some_and(|extension| extension == "rec"));
    records.sort();
    let mut packets = 0_usize;
    for _ in 0..times {
        for record in &records {
            let entries = read_file(record)?;
            let Some(Entry::Begin(begin)) = entries.first() else {
                bail!("{}: no record", record.display());
            };
            let mut sink = writer.record(&begin.test)?;
            for entry in entries {
                let is_packet = matches!(entry, Entry::Sent(_) | Entry::Arrived(_) | Entry::Frame(_));
                packets += usize::from(is_packet);
                sink.put(entry);
            }
            sink.finish(Time::default())?;
        }
    }
    let text = |name: &str| std::fs::read_to_string(from.join(name)).context(name.to_owned());
    writer.write("run.json", &text("run.json")?)?;
    let verdicts: Vec<serde_json::Value> = serde_json::from_str(&text("verdicts.json")?)?;
    let verdicts: Vec<_> = verdicts.iter().cycle().take(verdicts.len() * times).collect();
    writer.write("verdicts.json", &serde_json::to_string(&verdicts)?)?;
    writer.seal()?;
    println!("{packets} packets");
    Ok(())
}
