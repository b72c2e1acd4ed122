//! SQLite's write-ahead log, looked at before SQLite is.
//!
//! SQLite takes of the log what is whole up to the first frame that is not, and says nothing of the rest: a bit that changed
//! would cost all that was committed behind it, in silence. Two things tell of it: frames that end a transaction behind one
//! that is not whole, and the index of the log (`-shm`), which a daemon that was killed leaves behind and which says how many
//! frames there were. Who was killed while writing leaves frames as well, but none that ends a transaction.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Bytes of the index that its sum is of, and of its whole head, of which there are two.
const INDEX_SUMMED: usize = 40;
const INDEX_HEAD: usize = 48;
/// The page size where nothing tells another.
const PAGE: usize = 4096;

/// What the log says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Looked {
    /// Frames up to the end of the last whole transaction.
    pub(super) whole: usize,
    /// Frames that were committed and that SQLite will not see.
    pub(super) lost: usize,
}

/// A log or index beside the database.
pub(super) fn beside(database: &Path, what: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(what);
    name.into()
}

/// Looks at the log of a database that no process has open.
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
    // A frame is good by the sum that the one before it says, and is of the same log.
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
        // What is in the database already needs no log.
        let seen = index.in_database.max(if is_of_this { whole } else { 0 });
        index.frames.saturating_sub(seen)
    });
    Looked {
        whole,
        lost: by_frames.max(by_index),
    }
}

/// Frames up to the end of the last whole transaction.
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

/// What the index says of the log.
struct Index<'i> {
    frames: usize,
    in_database: usize,
    salt: &'i [u8],
}

/// None when it is not whole: it is made anew by who opens the database, and only tells what was before.
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

/// The sum that a frame says.
fn said(frame: &[u8]) -> (u32, u32) {
    (u32_at(frame, 16, true), u32_at(frame, 20, true))
}

fn frame_sum(frame: &[u8], seed: (u32, u32), big: bool) -> (u32, u32) {
    sum(&frame[FRAME_HEADER..], sum(&frame[..8], seed, big), big)
}

/// SQLite's sum of words.
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
