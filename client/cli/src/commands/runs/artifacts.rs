//! `verbatim runs artifacts`: the files of a run.

use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use verbatim_client::v1::Artifact;
use verbatim_client::{Client, Error, RunName};
use verbatim_record::{LARGEST_BUNDLE, MOST_FILES};
use verbatim_text::shown_lines;

use crate::exit::Usage;
use crate::print;
use crate::server::run_named;

/// The file that is downloaded last; it shows that the download is complete.
const MANIFEST: &str = "manifest.json";

/// The most bytes of a capture for each byte of the records, and for the rest of the capture.
const MOST_PER_BYTE: u64 = 8;
const OF_A_CAPTURE: u64 = 16 << 20;

/// The files that a run left.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The run: runs/ID, ID, or latest
    run: String,
    /// The file to read; without a name, list all files
    name: Option<String>,
    /// The output file, or - for stdout; by default a new file of the same name in the current directory
    #[arg(long, value_name = "FILE", requires = "name")]
    output: Option<PathBuf>,
    /// Print the list as one JSON document
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

pub(crate) async fn run(client: &Client, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let run = run_named(client, &arguments.run).await?;
    let Some(name) = &arguments.name else {
        let artifacts = listed(client, &run).await?;
        if arguments.json {
            let listed: Vec<_> = artifacts
                .iter()
                .map(|artifact| serde_json::json!({"name": artifact.name, "size_bytes": artifact.size_bytes}))
                .collect();
            print::json(&serde_json::json!({ "run": run.as_str(), "artifacts": listed }))?;
        } else {
            print::text(&print::tables::artifacts(&artifacts))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    match &arguments.output {
        Some(output) if output.as_os_str() == "-" => {
            let most = most_of(client, &run, name).await?;
            let reader = client.read_artifact(&run, name).await?;
            reader.copy_to(&mut Stdout, most).await?;
        }
        Some(output) => to_file(client, &run, name, output).await?,
        None => {
            let file = Path::new(name).file_name().map(PathBuf::from).ok_or_else(|| {
                Usage(format!(
                    "{name:?} is not the name of a file; `verbatim runs artifacts {run}` lists the files"
                ))
            })?;
            if file.exists() {
                let file = file.display();
                return Err(Usage(format!("{file} exists already; --output {file} overwrites it")).into());
            }
            to_file(client, &run, name, &file).await?;
            print::note(format_args!("wrote {}", file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Locks stdout for each write, so that no lock is held across an await. A terminal gets no control characters.
struct Stdout;

#[expect(
    clippy::disallowed_methods,
    reason = "a file of a run goes to another file unaltered"
)]
impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !print::is_terminal() {
            return io::stdout().write(bytes);
        }
        io::stdout().write_all(shown_lines(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Downloads a file of a run. The file gets its name when it is complete.
pub(crate) async fn to_file(client: &Client, run: &RunName, name: &str, file: &Path) -> anyhow::Result<()> {
    let most = most_of(client, run, name).await?;
    let reader = client.read_artifact(run, name).await?;
    receive(reader, file, most).await?;
    Ok(())
}

/// Returns the most bytes of a file: its listed size. The daemon makes a capture on each read, and lists none; its size
/// is limited by that of the records.
async fn most_of(client: &Client, run: &RunName, name: &str) -> anyhow::Result<u64> {
    let artifacts = listed(client, run).await?;
    let all: u64 = artifacts.iter().map(|artifact| artifact.size_bytes).sum();
    let of_name = artifacts.iter().find(|artifact| artifact.name == name);
    Ok(of_name.map_or(MOST_PER_BYTE * all + OF_A_CAPTURE, |artifact| artifact.size_bytes))
}

/// Lists the files of a run. Refuses more than a bundle can have.
async fn listed(client: &Client, run: &RunName) -> anyhow::Result<Vec<Artifact>> {
    let artifacts = client.list_artifacts(run).await?;
    let all = artifacts
        .iter()
        .fold(0, |all: u64, of| all.saturating_add(of.size_bytes));
    if artifacts.len() > MOST_FILES || all > LARGEST_BUNDLE {
        anyhow::bail!(
            "the daemon lists {} files with {all} bytes for {run}; expected at most {MOST_FILES} files with \
             {LARGEST_BUNDLE} bytes",
            artifacts.len()
        );
    }
    Ok(artifacts)
}

/// Downloads all files of a run into a directory, as the bundle of `--record`.
pub(crate) async fn download_all(client: &Client, run: &RunName, directory: &Path) -> anyhow::Result<()> {
    let mut artifacts = listed(client, run).await?;
    // Download the manifest last: without it, an incomplete download is not a valid bundle.
    artifacts.sort_by_key(|artifact| artifact.name == MANIFEST);
    for artifact in artifacts {
        let plain = Path::new(&artifact.name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || artifact.name.is_empty() {
            return Err(Error::FileName { name: artifact.name }.into());
        }
        let file = directory.join(&artifact.name);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).map_err(|source| cannot_write(parent, source))?;
        }
        let reader = client.read_artifact(run, &artifact.name).await?;
        let bytes = receive(reader, &file, artifact.size_bytes).await?;
        if bytes != artifact.size_bytes {
            return Err(Error::Cut {
                name: artifact.name,
                expected: artifact.size_bytes,
                seen: bytes,
            }
            .into());
        }
    }
    Ok(())
}

async fn receive(reader: verbatim_client::ArtifactReader, file: &Path, most: u64) -> Result<u64, Error> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let io = |source| cannot_write(&part, source);
    let mut out = BufWriter::new(std::fs::File::create(&part).map_err(io)?);
    let received = reader.copy_to(&mut out, most).await;
    let flushed = received.and_then(|bytes| out.flush().map(|()| bytes).map_err(io));
    match flushed {
        Ok(bytes) => std::fs::rename(&part, file)
            .map(|()| bytes)
            .map_err(|source| cannot_write(file, source)),
        Err(error) => {
            let _ = std::fs::remove_file(&part);
            Err(error)
        }
    }
}

fn cannot_write(path: &Path, source: io::Error) -> Error {
    Error::Write {
        name: path.display().to_string(),
        source,
    }
}
