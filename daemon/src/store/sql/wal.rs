//! Checks SQLite's write-ahead log before SQLite opens it.
//!
//! SQLite uses the frames of the log up to the first invalid frame, and silently ignores the rest. A single changed
//! bit would therefore silently lose all later transactions. Two signs reveal such a loss:
//!
//! * A valid commit frame after an invalid frame. A process that is killed during a write also leaves frames after the
//!   last transaction, but no commit frame among them.
//! * An index of the log (`-shm`) that counts more frames than the log has before its first invalid frame. A killed
//!   daemon leaves this index behind. Frames that were already copied into the database are no loss.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The number of bytes of an index header that its checksum covers. The index starts with two equal headers of
/// `INDEX_HEAD` bytes.
const INDEX_SUMMED: usize = 40;
const INDEX_HEAD: usize = 48;
/// The assumed page size in bytes when the log's header is not readable.
const PAGE: usize = 4096;

/// The result of the check of a log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Looked {
    /// The number of frames up to the last complete transaction.
    pub(super) whole: usize,
    /// The number of committed frames that SQLite will ignore.
    pub(super) lost: usize,
}

/// Returns the path of a file beside the database, such as its log or index.
pub(super) fn beside(database: &Path, what: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(what);
    name.into()
}

/// Checks the log of a database that no process has open.
pub(super) fn look(database: &Path) -> io::Result<Looked> {
    let read = |what| match fs::read(beside(database, what)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    Ok(looked(&read("-wal")?, &read("-shm")?))
}

fn looked(log: &[u8], index: &[u8]) -> Looked {
    let header = log.get(..HEADER).filter(|header| is_whole_header(header));
    let (page, big) = match header {
        Some(header) => (u32_at(header, 8, true) as usize, header[3] & 1 == 1),
        None => (PAGE, cfg!(target_endian = "big")),
    };
    let frames: Vec<&[u8]> = log
        .get(HEADER..)
        .unwrap_or_default()
        .chunks_exact(FRAME_HEADER + page)
        .collect();
    let whole = header.map_or(0, |header| whole(header, &frames, big));
    let salt = header.map(|header| &header[16..24]);
    // Tells whether a frame is a valid commit frame: it belongs to this log, it ends a transaction, and its
    // checksum continues the checksum of the frame before it.
    let ends_a_transaction = |at: usize| {
        let (before, frame) = (frames[at - 1], frames[at]);
        let seed = (u32_at(before, 16, true), u32_at(before, 20, true));
        let same = salt.map_or(before[8..16] == frame[8..16], |salt| salt == &frame[8..16]);
        same && u32_at(frame, 4, true) != 0 && frame_sum(frame, seed, big) == said(frame)
    };
    let behind = (whole.max(1)..frames.len()).rev().find(|at| ends_a_transaction(*at));
    let by_frames = behind.map_or(0, |at| at + 1 - whole);
    let by_index = of_index(index).map_or(0, |index| {
        let is_of_this = salt.is_none_or(|salt| salt == index.salt);
        // Not lost: the frames that SQLite still reads from the log, and the frames that were already copied into
        // the database.
        let seen = index.in_database.max(if is_of_this { whole } else { 0 });
        index.frames.saturating_sub(seen)
    });
    Looked {
        whole,
        lost: by_frames.max(by_index),
    }
}

/// Returns the number of frames up to the last complete transaction.
fn whole(header: &[u8], frames: &[&[u8]], big: bool) -> usize {
    let mut sum = (u32_at(header, 24, true), u32_at(header, 28, true));
    let mut whole = 0;
    for (at, frame) in frames.iter().enumerate() {
        sum = frame_sum(frame, sum, big);
        if frame[8..16] != header[16..24] || sum != said(frame) || u32_at(frame, 0, true) == 0 {
            break;
        }
        if u32_at(frame, 4, true) != 0 {
            whole = at + 1;
        }
    }
    whole
}

fn is_whole_header(header: &[u8]) -> bool {
    let page = u32_at(header, 8, true);
    let known = matches!(u32_at(header, 0, true), 0x377F_0682 | 0x377F_0683);
    let summed = sum(&header[..24], (0, 0), header[3] & 1 == 1);
    known
        && page.is_power_of_two()
        && (512..=65536).contains(&page)
        && summed == (u32_at(header, 24, true), u32_at(header, 28, true))
}

struct Index<'i> {
    frames: usize,
    in_database: usize,
    salt: &'i [u8],
}

/// Parses the index; `None` if the index is not valid. The index must be read before a process opens the database,
/// because SQLite then rebuilds it.
fn of_index(index: &[u8]) -> Option<Index<'_>> {
    let head = index.get(..INDEX_HEAD)?;
    let big = cfg!(target_endian = "big");
    let summed = sum(&head[..INDEX_SUMMED], (0, 0), big);
    let is_whole = head[12] != 0
        && index.get(INDEX_HEAD..2 * INDEX_HEAD)? == head
        && summed == (u32_at(head, 40, big), u32_at(head, 44, big));
    is_whole.then_some(Index {
        frames: u32_at(head, 16, big) as usize,
        in_database: index.get(96..100).map_or(0, |bytes| u32_at(bytes, 0, big)) as usize,
        salt: &head[32..40],
    })
}

/// Returns the checksum that a frame holds.
fn said(frame: &[u8]) -> (u32, u32) {
    (u32_at(frame, 16, true), u32_at(frame, 20, true))
}

fn frame_sum(frame: &[u8], seed: (u32, u32), big: bool) -> (u32, u32) {
    sum(&frame[FRAME_HEADER..], sum(&frame[..8], seed, big), big)
}

/// Computes SQLite's WAL checksum of pairs of 32-bit words.
fn sum(bytes: &[u8], (mut one, mut two): (u32, u32), big: bool) -> (u32, u32) {
    for words in bytes.chunks_exact(8) {
        one = one.wrapping_add(u32_at(words, 0, big)).wrapping_add(two);
        two = two.wrapping_add(u32_at(words, 4, big)).wrapping_add(one);
    }
    (one, two)
}

fn u32_at(bytes: &[u8], at: usize, big: bool) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    match big {
        true => u32::from_be_bytes(word),
        false => u32::from_le_bytes(word),
    }
}
