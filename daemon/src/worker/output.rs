//! The stdout and stderr of a worker, including the output of the libraries that it loads.

use std::collections::VecDeque;
use std::convert::Infallible;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use verbatim_proto::v1::LogLine;
use verbatim_run::Event;

/// The maximum length of a line in bytes. A longer line is split.
const LONGEST_LINE: usize = 4096;
/// How many lines are buffered between the pipes and their reader.
const ON_THE_WAY: usize = 64;
/// How many lines of a worker are reported as events.
const MOST_TOLD: usize = 10_000;
/// How many lines the reason of a failure quotes.
const QUOTED: usize = 8;

/// Reads a pipe to its end, line by line.
async fn lines_of(mut pipe: impl AsyncRead + Unpin, lines: mpsc::Sender<String>) {
    let mut bytes = Vec::new();
    loop {
        let end = !matches!(pipe.read_buf(&mut bytes).await, Ok(1..));
        while let Some(length) = line_end(&bytes, end) {
            let line: Vec<u8> = bytes.drain(..length).collect();
            let line = String::from_utf8_lossy(&line)
                .trim_end_matches(['\n', '\r'])
                .to_string();
            if !line.is_empty() && lines.send(line).await.is_err() {
                return;
            }
        }
        if end {
            return;
        }
    }
}

/// Returns the length of the first line; `None` if more bytes of the line may follow.
fn line_end(bytes: &[u8], end: bool) -> Option<usize> {
    let newline = bytes.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n');
    newline
        .map(|place| place + 1)
        .or_else(|| (bytes.len() >= LONGEST_LINE).then_some(LONGEST_LINE))
        .or_else(|| (end && !bytes.is_empty()).then_some(bytes.len()))
}

/// The output of a worker.
#[derive(Debug)]
pub(super) struct Output {
    lines: mpsc::Receiver<String>,
    events: mpsc::UnboundedSender<Event>,
    told: usize,
    last: VecDeque<String>,
}

impl Output {
    /// Reads two pipes in the background.
    pub(super) fn follow(
        stdout: impl AsyncRead + Unpin + Send + 'static,
        stderr: impl AsyncRead + Unpin + Send + 'static,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (sender, lines) = mpsc::channel(ON_THE_WAY);
        tokio::spawn(lines_of(stdout, sender.clone()));
        tokio::spawn(lines_of(stderr, sender));
        Self {
            lines,
            events,
            told: 0,
            last: VecDeque::new(),
        }
    }

    /// Reports lines as they arrive, and never returns. The future may be dropped at any time.
    pub(super) async fn tell(&mut self) -> Infallible {
        self.tell_to_the_end().await;
        std::future::pending().await
    }

    /// Reports lines as they arrive, and returns when both pipes have ended.
    pub(super) async fn tell_to_the_end(&mut self) {
        while let Some(line) = self.lines.recv().await {
            if self.last.len() == QUOTED {
                self.last.pop_front();
            }
            self.last.push_back(line.clone());
            self.told += 1;
            let line = match self.told.cmp(&MOST_TOLD) {
                std::cmp::Ordering::Less => line,
                std::cmp::Ordering::Equal => format!("this worker wrote {MOST_TOLD} lines; the rest is not shown"),
                std::cmp::Ordering::Greater => continue,
            };
            // Ignore an error: the receiver may be closed.
            let _ = self.events.send(Event::LogLine(LogLine { text: line }));
        }
    }

    /// Returns the last lines, for the reason of a failure.
    pub(super) fn quote(&self) -> String {
        if self.last.is_empty() {
            return "it wrote nothing to its output".into();
        }
        let lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        format!("the last of its output: {}", lines.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reports_lines_and_splits_long_ones() {
        let (events, mut told) = mpsc::unbounded_channel();
        let long = "x".repeat(LONGEST_LINE + 10);
        let stdout = format!("one\r\n\n{long}\nwithout end");
        let mut output = Output::follow(std::io::Cursor::new(stdout), &b"\xFFtwo\n"[..], events);
        output.tell_to_the_end().await;
        let mut lines = Vec::new();
        while let Ok(Event::LogLine(LogLine { text: line })) = told.try_recv() {
            lines.push(line);
        }
        lines.sort();
        let pieces = ["one", "without end", &long[..10], &long[..LONGEST_LINE], "\u{FFFD}two"];
        assert_eq!(lines, pieces);
        assert!(output.quote().contains("without end"), "{}", output.quote());
    }

    #[tokio::test]
    async fn limits_reported_lines_of_a_flood() {
        let (events, mut told) = mpsc::unbounded_channel();
        let flood = "line\n".repeat(MOST_TOLD + 100) + "the last\n";
        let mut output = Output::follow(std::io::Cursor::new(flood), tokio::io::empty(), events);
        output.tell_to_the_end().await;
        let mut lines = 0;
        while told.try_recv().is_ok() {
            lines += 1;
        }
        assert_eq!(lines, MOST_TOLD);
        assert!(output.quote().ends_with("the last"), "{}", output.quote());
    }
}
