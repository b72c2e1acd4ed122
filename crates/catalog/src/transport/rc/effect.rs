//! Effects of the peer's requests on the DUT: memory contents and completed receives.

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Findings, OUT_OF_ORDER, Passed, Trace, VerbsDone, WcStatus};

use super::checks::{alive, evidence};
use verbatim_oracle::rc::{Dialogue, reply};

/// Describes how two byte strings differ, for the "seen" text of a finding.
pub(crate) fn differs(expected: &[u8], seen: &[u8]) -> String {
    match expected.iter().zip(seen).position(|(a, b)| a != b) {
        None if expected.len() == seen.len() => "the same".into(),
        None => format!("{} bytes", seen.len()),
        Some(at) => {
            let show = |bytes: &[u8]| format!("{:02x?}", &bytes[at..bytes.len().min(at + 8)]);
            format!("at byte {at} {} instead of {}", show(seen), show(expected))
        }
    }
}

/// Checks that the DUT's memory, as the host read it, equals the expected bytes.
pub(crate) fn memory_is(
    f: &mut Findings<'_>,
    (statement, about): (&str, &str),
    read: &VerbsDone,
    (words, expected): (&str, &[u8]),
) -> bool {
    let (seen, result) = match reply(read) {
        Some(Reply::Bytes(found)) if found.bytes == expected => ("the same".into(), Passed::Pass),
        Some(Reply::Bytes(found)) => (differs(expected, &found.bytes), Passed::Fail),
        _ => ("the memory could not be read".into(), Passed::Inconclusive),
    };
    f.prove(statement, &[read.into()], about, (words, seen), result)
}

/// Checks the memory as [`memory_is`] does, after requests that arrived out of order.
///
/// A device that may place data out of order is not checked: only the memory rules of the oracle know the possible
/// contents of its memory.
pub(crate) fn memory_in_turn(
    t: &Trace,
    f: &mut Findings<'_>,
    claim: (&str, &str),
    read: &VerbsDone,
    words: (&str, &[u8]),
) {
    if t.parameter(OUT_OF_ORDER) != Some(1) {
        memory_is(f, claim, read, words);
    }
}

/// Copies bytes into a memory image at an offset and drops bytes beyond its end.
pub(crate) fn put(memory: &mut [u8], at: u32, bytes: &[u8]) {
    for (place, byte) in memory.iter_mut().skip(at as usize).zip(bytes) {
        *place = *byte;
    }
}

/// Returns the bytes that a memory write command wrote, or no bytes for another command.
pub(crate) fn written(command: &VerbsDone) -> &[u8] {
    match &command.command {
        Command::WriteMemory(write) => &write.bytes,
        _ => &[],
    }
}

/// The expected completion of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    pub(crate) wr_id: u64,
    /// Length of the message in bytes.
    pub(crate) byte_len: u32,
    pub(crate) imm: Option<u32>,
}

impl Received {
    fn in_words(&self) -> String {
        let imm = self.imm.map_or(String::new(), |imm| format!(", immediate {imm:#010x}"));
        format!(
            "wr_id {} with {}, {} bytes{imm}",
            self.wr_id,
            WcStatus::SUCCESS,
            self.byte_len
        )
    }
}

/// Checks that exactly these receives completed between two places of the record, in this order.
pub(crate) fn received(
    trace: &Trace,
    f: &mut Findings<'_>,
    (statement, about): (&str, &str),
    (dialogue, after, before): (&Dialogue<'_>, usize, usize),
    expected: &[Received],
) -> bool {
    let done = dialogue.completions_between(after, before);
    let got: Vec<(WcStatus, Received)> = done
        .iter()
        .map(|done| {
            let of = done.completion;
            let got = Received {
                wr_id: of.wr_id,
                byte_len: of.byte_len,
                imm: of.imm,
            };
            (done.status(), got)
        })
        .collect();
    let wanted: Vec<(WcStatus, Received)> = expected.iter().map(|one| (WcStatus::SUCCESS, *one)).collect();
    let result = if got == wanted {
        Passed::Pass
    } else if got.is_empty() {
        // The agent reports over a reliable stream, so no completion can be lost.
        alive(trace, before, true)
    } else {
        Passed::Fail
    };
    let list = |of: Vec<String>| if of.is_empty() { "none".into() } else { of.join("; ") };
    let with = |(status, one): &(WcStatus, Received)| {
        let words = one.in_words();
        words.replace(&WcStatus::SUCCESS.to_string(), &status.to_string())
    };
    let words = (
        list(expected.iter().map(Received::in_words).collect()),
        list(got.iter().map(with).collect()),
    );
    f.prove(statement, &evidence(&done), about, words, result)
}
