//! Input of a capture from a file or a pipe.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use verbatim_capture::read::CaptureError;

use super::Out;
use crate::commands::report::is_record;
use crate::exit::Usage;

/// Opens the file, or stdin for `-`.
pub(super) fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let why = "expected a capture on stdin, but stdin is a terminal; give a file, or pipe one in: tcpdump -w \
                       - | verbatim inspect -";
            return Err(Usage(why.into()).into());
        }
        return Ok(Box::new(stdin.lock()));
    }
    let wrong = |why: String| anyhow::Error::from(Usage(format!("{}: {why}", path.display())));
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let (is_record, of_record) = match path.extension() {
        Some(extension) if extension == "rec" => (true, parent.unwrap_or(Path::new("."))),
        _ => (is_record(path), path),
    };
    if is_record {
        let directory = verbatim_text::quoted(&of_record.display().to_string());
        return Err(wrong(format!(
            "a record of a run, no capture: `verbatim judge {directory}` judges it again, `verbatim explain \
             {directory}` explains its findings, and `verbatim export {directory} --pcapng FILE` makes a capture"
        )));
    }
    let file = File::open(path).map_err(|error| {
        wrong(format!(
            "cannot open the capture: {error}; give a pcap, pcapng or ERF file that you may read, plain or compressed \
             by gzip or zstd, or - for stdin"
        ))
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(wrong("expected a capture, seen a directory; give a file in it".into()));
    }
    Ok(Box::new(file))
}

/// Converts an error of reading the capture's first bytes. A file that is no capture is an error of the operator.
pub(super) fn refused(path: &Path, error: CaptureError) -> anyhow::Error {
    match error {
        CaptureError::NotACapture { .. } => Usage(format!("{}: {error}", path.display())).into(),
        other => anyhow::Error::from(other).context(path.display().to_string()),
    }
}

/// Flushes the output before each read of the capture, because a read from a live pipe may wait long.
pub(super) struct Patient<'o, W: Write> {
    pub(super) input: Box<dyn Read>,
    pub(super) out: &'o Out<W>,
}

impl<W: Write> Read for Patient<'_, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let flushed = self.out.lines.borrow_mut().flush();
        if let Err(error) = flushed {
            let kind = error.kind();
            self.out.failed.replace(Some(error));
            return Err(kind.into());
        }
        self.input.read(buffer)
    }
}
