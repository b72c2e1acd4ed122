//! `verbatim inspect FILE`: judges each packet of a capture as a conforming port would.

mod arguments;
mod cut;
mod input;
mod live;
mod rc;
mod report;
mod tally;
mod what;

use std::cell::{Cell, RefCell};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::rc::Rc;

use console::Term;
use verbatim_capture::read::{CaptureError, Captured, Content, Reader, Unread};
use verbatim_oracle::packet_check::{self as link, Action, Judgement, Port, Received};
use verbatim_wire::{Layout, Lid, Lrh, Medium, crc::VCRC_LENGTH};

pub(crate) use arguments::Arguments;

use crate::exit;
use crate::print::{self, counted};
use arguments::Only;
use report::{Lines, Report};
use tally::Tally;

/// Size of the output buffer, in bytes.
const WRITE_AT_ONCE: usize = 64 << 10;

/// Stdout. The output is flushed during reads of the capture; `failed` has the error of a failed flush.
struct Out<W: Write> {
    lines: RefCell<BufWriter<W>>,
    failed: RefCell<Option<io::Error>>,
    /// Number of packets that a live capture lost.
    lost: Rc<Cell<u64>>,
}

/// A packet with its verdict.
struct Judged<'a> {
    packet: Captured<'a>,
    port: &'a Port,
    /// The judged packet; None if the content is of an unsupported kind.
    received: Option<Received<'a>>,
    verdict: Result<Judgement, Unread>,
}

impl<'a> Judged<'a> {
    fn of(packet: Captured<'a>, port: &'a Port, ignores_vcrc: bool) -> Self {
        let received = match packet.content {
            Content::Unread(_) => None,
            Content::Ethernet => Some((Medium::Ethernet, packet.bytes)),
            Content::InfiniBand => Some(infiniband(packet.bytes, ignores_vcrc)),
        };
        let received = received.map(|(medium, bytes)| Received {
            medium,
            bytes,
            delimiter: None,
            is_whole: packet.is_whole,
        });
        let verdict = match (packet.content, &received) {
            (Content::Unread(what), _) => Err(what),
            (_, Some(_)) if packet.is_reconstructed && has_made_up_lids(packet.bytes) => {
                Ok(Judgement::not_judged(NO_LIDS))
            }
            (_, Some(received)) => Ok(link::check(port, received)),
            (_, None) => Err(Unread::ErfShort),
        };
        Self {
            packet,
            port,
            received,
            verdict,
        }
    }

    fn action(&self) -> Option<Action> {
        self.verdict.as_ref().ok().map(|judgement| judgement.action)
    }

    fn is_shown(&self, only: Option<Only>) -> bool {
        let kind = match self.action() {
            Some(Action::Accept) => Only::Accepted,
            Some(Action::Discard | Action::DiscardOrForward) => Only::Discarded,
            Some(Action::NotJudged(_)) | None => Only::NotJudged,
        };
        only.is_none_or(|only| only == kind)
    }
}

/// Reason why an exported MAD is not judged.
const NO_LIDS: &str = "its LIDs are not in this capture: a record of MADs has none, and the export made them up";

/// Returns whether the export invented the LIDs of a MAD. The export knows only the LIDs of directed-route SMPs:
/// the permissive LID.
fn has_made_up_lids(bytes: &[u8]) -> bool {
    bytes.first_chunk::<{ Lrh::SIZE }>().is_some_and(|lrh| {
        let lrh = Lrh::from_bytes(lrh);
        (lrh.slid(), lrh.dlid()) != (Lid::PERMISSIVE, Lid::PERMISSIVE)
    })
}

/// Splits off the VCRC. The capture format does not say whether a packet has a VCRC. A packet has none if PktLen
/// covers all bytes.
fn infiniband(bytes: &[u8], ignores_vcrc: bool) -> (Medium, &[u8]) {
    let pkt_len = match *bytes {
        [_, _, _, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low]) & 0x7FF),
        _ => 0,
    };
    if bytes.len() == 4 * pkt_len {
        (Medium::InfiniBandNoVcrc, bytes)
    } else if ignores_vcrc {
        (
            Medium::InfiniBandNoVcrc,
            &bytes[..bytes.len().saturating_sub(VCRC_LENGTH)],
        )
    } else {
        (Medium::InfiniBand, bytes)
    }
}

#[expect(clippy::disallowed_methods, reason = "the lines have numbers and names of ours only")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let port = arguments.port()?;
    let out = Out {
        lines: RefCell::new(BufWriter::with_capacity(WRITE_AT_ONCE, io::stdout().lock())),
        failed: RefCell::new(None),
        lost: Rc::default(),
    };
    let input: Box<dyn io::Read> = match &arguments.interface {
        Some(interface) => Box::new(live::Live::open(interface, &out.lost)?),
        None => input::open(arguments.place())?,
    };
    let judged = if arguments.rc {
        rc::judge(arguments, &out, input)
    } else {
        judge(arguments, &port, &out, input).map(|(tally, ended)| (tally.exit_code(), ended))
    };
    // A failed flush also makes the read of the capture fail, and so `judged` is an error. Report the error of the
    // flush, which is the cause.
    if let Some(error) = out.failed.take() {
        return Err(anyhow::Error::from(error).context("cannot write to stdout"));
    }
    let (code, ended) = judged?;
    let lost = out.lost.get();
    if lost > 0 {
        let packets = counted(lost, "packet", "packets");
        print::note(format_args!(
            "verbatim: {}: the capture lost {packets}, because the kernel's buffer was full",
            arguments.place().display()
        ));
    }
    match ended {
        None => Ok(ExitCode::from(code)),
        Some(error) => {
            print::note(format_args!("verbatim: {}: {error}", arguments.place().display()));
            Ok(ExitCode::from(exit::ERROR))
        }
    }
}

/// Returns the width of the terminal in columns; None for a file or a pipe.
fn width() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(columns.into())
}

/// Judges each packet, and prints the summary. Returns the error that ended the capture early, if any.
fn judge<W: Write>(
    arguments: &Arguments,
    port: &Port,
    out: &Out<W>,
    input: Box<dyn io::Read>,
) -> anyhow::Result<(Tally, Option<CaptureError>)> {
    let mut reader =
        Reader::new(input::Patient { input, out }).map_err(|error| input::refused(arguments.place(), error))?;
    let mut report = Report::new(if arguments.json { Lines::Json } else { Lines::Table }, width());
    let mut tally = Tally::default();
    let write =
        |done: io::Result<()>| done.map_err(|error| anyhow::Error::from(error).context("cannot write to stdout"));
    let ended = loop {
        let packet = match reader.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        let judged = Judged::of(packet, port, arguments.ignore_vcrc);
        tally.count(&judged);
        report.clock(judged.packet.time);
        if judged.is_shown(arguments.only) {
            write(report.line(&mut *out.lines.borrow_mut(), &judged))?;
        }
    };
    let mut lines = out.lines.borrow_mut();
    write(report.end(&mut *lines, &tally))?;
    write(lines.flush())?;
    Ok((tally, ended))
}
