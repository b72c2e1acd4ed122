//! Paging of lists: the page size and the page token.

use std::hash::{DefaultHasher, Hash, Hasher};

use prost::Message;
use verbatim_run::RunId;

const USUAL: usize = 100;
const MOST: usize = 1000;

/// Returns the page size: 100 by default, and at most 1000.
pub(super) fn size(asked: i32) -> Result<usize, String> {
    match usize::try_from(asked) {
        Ok(0) => Ok(USUAL),
        Ok(size) => Ok(size.min(MOST)),
        Err(_) => Err(format!("expected 1 to {MOST}, or 0 for {USUAL}; seen {asked}")),
    }
}

/// The size in bytes from which a page takes no further run. Clients refuse answers of more than 4 MiB.
const FULL: usize = 1 << 20;

/// Takes messages until a page is full. The first message is always taken.
pub(super) fn taken<M: Message>(all: impl Iterator<Item = M>) -> Vec<M> {
    let mut bytes = 0;
    let fits = |message: &M| {
        let fits = bytes < FULL;
        bytes += message.encoded_len();
        fits
    };
    all.take_while(fits).collect()
}

/// Returns the token of the page after the run `last`, for this filter.
pub(super) fn token(last: &RunId, filter: &str) -> String {
    format!("{last}.{:016x}", hash(filter))
}

/// Returns the run after which the page starts; `None` for the first page.
pub(super) fn after(token: &str, filter: &str) -> Result<Option<RunId>, String> {
    if token.is_empty() {
        return Ok(None);
    }
    let parsed = token
        .split_once('.')
        .and_then(|(id, hash)| Some((id.parse::<RunId>().ok()?, u64::from_str_radix(hash, 16).ok()?)));
    match parsed {
        Some((id, of)) if of == hash(filter) => Ok(Some(id)),
        Some(_) => {
            Err("it belongs to a list with another filter; send the same filter, or ask for the first page".into())
        }
        None => Err(format!(
            "expected next_page_token as an earlier page gave it, seen {token:?}; ask for the first page"
        )),
    }
}

fn hash(filter: &str) -> u64 {
    // All processes of one build compute the same hash. Tokens need not be valid across builds.
    let mut hasher = DefaultHasher::new();
    filter.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_valid_for_its_filter_only() {
        let id = RunId::new(7_000_000, 1);
        let given = token(&id, "rig=a");
        assert_eq!(after(&given, "rig=a"), Ok(Some(id)));
        assert!(after(&given, "rig=b").unwrap_err().contains("another filter"));
        assert!(after("x", "").unwrap_err().contains("next_page_token"));
        assert_eq!(after("", "rig=a"), Ok(None));
    }

    #[test]
    fn list_of_runs_is_bounded_in_bytes() {
        use verbatim_proto::v1::Run;
        let run = |bytes: usize| Run {
            reason: "x".repeat(bytes),
            ..Run::default()
        };
        let count = |bytes| taken((0..1000).map(|_| run(bytes))).len();
        assert_eq!((count(100), count(16 << 10), count(3 << 20)), (1000, 64, 1));
    }

    #[test]
    fn page_size_is_bounded() {
        assert_eq!((size(0), size(7), size(5000)), (Ok(100), Ok(7), Ok(1000)));
        assert!(size(-1).is_err());
    }
}
