//! What a row holds carries a sum of itself: a bit that changed on the disk is noticed by whoever reads it, and never told as
//! if it had been kept so. SQLite has none of its own.
//!
//! The sum is part of the row's body, where programs that know nothing of it pass over it: a member of the JSON, a field of
//! the message. Rows of before there were sums have none; from which id on each must, [`Seal`] knows.

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// In front of the sum, in JSON.
const MEMBER: &str = ",\"sum\":\"";
/// Behind it.
const CLOSED: &str = "\"}";
/// Its digits.
const DIGITS: usize = 16;
/// The key of field 15000, of 64 bits.
const FIELD: [u8; 3] = [0xC1, 0xA9, 0x07];

/// From which id on rows must have a sum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seal(Option<String>);

impl Seal {
    /// From what was made at that instant on, in milliseconds since 1970.
    pub(super) fn from_ms(ms: u64) -> Self {
        // As ids begin, which sort by time.
        Self(Some(format!("{ms:012x}")))
    }

    /// Of a database that has sums of its own, and that older programs write to as well.
    pub(super) const fn optional() -> Self {
        Self(None)
    }

    fn must(&self, id: &str) -> bool {
        self.0.as_deref().is_some_and(|from| id >= from)
    }

    /// What a row with that id holds.
    pub(super) fn document<T: DeserializeOwned>(&self, id: &str, body: &str) -> Result<T, String> {
        let parse = |text: &str| serde_json::from_str(text).map_err(|error| error.to_string());
        match split(body) {
            Some((head, found)) => {
                let text = format!("{head}}}");
                match format!("{:0DIGITS$x}", sum(id, 0, text.as_bytes())) == found {
                    true => parse(&text),
                    false => Err(ALTERED.into()),
                }
            }
            None if self.must(id) => Err(ALTERED.into()),
            None => parse(body),
        }
    }

    /// What a row with that id and cursor holds.
    pub(super) fn message<M: Message + Default>(&self, id: &str, cursor: u64, body: &[u8]) -> Result<M, String> {
        let place = body.len().checked_sub(FIELD.len() + 8);
        let split = place.and_then(|at| Some((&body[..at], body[at..].strip_prefix(&FIELD)?)));
        let bytes = match split {
            Some((bytes, found)) if sum(id, cursor, bytes).to_le_bytes() == found => bytes,
            Some(_) => return Err(ALTERED.into()),
            None if self.must(id) || body.is_empty() => return Err(ALTERED.into()),
            None => body,
        };
        M::decode(bytes).map_err(|error| error.to_string())
    }
}

const ALTERED: &str = "its sum is not that of what it holds: it was altered or damaged";

/// A document, with its sum.
pub(super) fn document<T: Serialize>(id: &str, of: &T) -> String {
    let mut text = serde_json::to_string(of).expect("plain data");
    let sum = sum(id, 0, text.as_bytes());
    // The brace that closes it.
    text.pop();
    text.push_str(&format!("{MEMBER}{sum:0DIGITS$x}{CLOSED}"));
    text
}

/// A message, with its sum.
pub(super) fn message(id: &str, cursor: u64, of: &impl Message) -> Vec<u8> {
    let mut bytes = of.encode_to_vec();
    let sum = sum(id, cursor, &bytes);
    bytes.extend(FIELD);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// A document without the brace that closes it, and the sum that it says.
fn split(body: &str) -> Option<(&str, &str)> {
    let open = body.strip_suffix(CLOSED)?;
    let (head, sum) = open.split_at_checked(open.len().checked_sub(DIGITS)?)?;
    Some((head.strip_suffix(MEMBER)?, sum))
}

/// Of what a row holds, and of where it stands: one that came elsewhere is none of there.
fn sum(id: &str, cursor: u64, bytes: &[u8]) -> u64 {
    let mut digest = Sha256::new();
    digest.update(id);
    digest.update(cursor.to_le_bytes());
    digest.update(bytes);
    let digest = digest.finalize();
    digest[..8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_proto::v1::LogLine;

    #[test]
    fn what_any_one_bit_was_altered_of_is_none_and_what_has_no_sum_only_where_it_may() {
        let seal = Seal::from_ms(5);
        let text = document(
            "000000000006-0000",
            &[("a", 1)].into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        );
        type Read = Result<std::collections::BTreeMap<String, u8>, String>;
        let read: Read = seal.document("000000000006-0000", &text);
        assert_eq!(read.unwrap()["a"], 1);
        let bytes = message("000000000006-0000", 7, &LogLine { text: "said".into() });
        let of = |seal: &Seal, id: &str, cursor, bytes: &[u8]| seal.message::<LogLine>(id, cursor, bytes);
        assert_eq!(of(&seal, "000000000006-0000", 7, &bytes).unwrap().text, "said");
        // Whoever knows nothing of sums reads it as well.
        assert_eq!(LogLine::decode(&bytes[..]).unwrap().text, "said");
        assert!(of(&seal, "000000000006-0000", 8, &bytes).is_err(), "of another place");
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(of(&seal, "000000000006-0000", 7, &altered).is_err(), "bit {bit}");
        }
        for bit in 0..text.len() * 8 {
            let mut altered = text.clone().into_bytes();
            altered[bit / 8] ^= 1 << (bit % 8);
            let Ok(altered) = String::from_utf8(altered) else {
                continue;
            };
            let read: Read = seal.document("000000000006-0000", &altered);
            assert!(read.is_err(), "{altered}");
        }
        let bare = LogLine { text: "old".into() }.encode_to_vec();
        assert!(of(&seal, "000000000006-0000", 1, &bare).is_err());
        assert_eq!(of(&seal, "000000000004-0000", 1, &bare).unwrap().text, "old");
        assert_eq!(
            of(&Seal::optional(), "000000000006-0000", 1, &bare).unwrap().text,
            "old"
        );
    }
}
