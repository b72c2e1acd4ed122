//! Checksums of rows. Each row holds a sum of its content, so that every reader detects a changed bit on the disk.
//! SQLite has no checksums of its own.
//!
//! The sum is part of the row's body: a member of the JSON document, or a field of the protobuf message.

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// The text before the sum, in JSON.
const MEMBER: &str = ",\"sum\":\"";
/// The text after the sum.
const CLOSED: &str = "\"}";
/// The number of hexadecimal digits of the sum.
const DIGITS: usize = 16;
/// The protobuf key of field 15000 with a 64-bit value.
const FIELD: [u8; 3] = [0xC1, 0xA9, 0x07];

const ALTERED: &str = "its sum does not match its content: it was altered or damaged";

/// Returns a JSON document with its sum.
pub(super) fn document<T: Serialize>(id: &str, of: &T) -> String {
    let mut text = serde_json::to_string(of).expect("plain data");
    let sum = sum(id, 0, text.as_bytes());
    // Remove the closing brace.
    text.pop();
    text.push_str(&format!("{MEMBER}{sum:0DIGITS$x}{CLOSED}"));
    text
}

/// Returns an encoded message with its sum.
pub(super) fn message(id: &str, cursor: u64, of: &impl Message) -> Vec<u8> {
    let mut bytes = of.encode_to_vec();
    let sum = sum(id, cursor, &bytes);
    bytes.extend(FIELD);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Checks and parses the document of the row with this id.
pub(super) fn open_document<T: DeserializeOwned>(id: &str, body: &str) -> Result<T, String> {
    let (head, found) = split(body).ok_or(ALTERED)?;
    let text = format!("{head}}}");
    if format!("{:0DIGITS$x}", sum(id, 0, text.as_bytes())) != found {
        return Err(ALTERED.into());
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Checks and decodes the message of the row with this id and cursor.
pub(super) fn open_message<M: Message + Default>(id: &str, cursor: u64, body: &[u8]) -> Result<M, String> {
    let at = body.len().checked_sub(FIELD.len() + 8).ok_or(ALTERED)?;
    let (bytes, end) = body.split_at(at);
    if end.strip_prefix(&FIELD) != Some(&sum(id, cursor, bytes).to_le_bytes()) {
        return Err(ALTERED.into());
    }
    M::decode(bytes).map_err(|error| error.to_string())
}

/// Splits a document into its text without the closing brace, and its sum.
fn split(body: &str) -> Option<(&str, &str)> {
    let open = body.strip_suffix(CLOSED)?;
    let (head, sum) = open.split_at_checked(open.len().checked_sub(DIGITS)?)?;
    Some((head.strip_suffix(MEMBER)?, sum))
}

/// Computes the sum of a row's content and keys. The keys are included, so that content copied from another row is
/// detected.
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

    const ID: &str = "000000000006-0000";

    type Map = std::collections::BTreeMap<String, u8>;

    #[test]
    fn opens_what_was_sealed() {
        let text = document(ID, &Map::from([("a".into(), 1)]));
        assert_eq!(open_document::<Map>(ID, &text).unwrap()["a"], 1);
        let bytes = message(ID, 7, &LogLine { text: "said".into() });
        assert_eq!(open_message::<LogLine>(ID, 7, &bytes).unwrap().text, "said");
    }

    #[test]
    fn rejects_any_bit_flip() {
        let bytes = message(ID, 7, &LogLine { text: "said".into() });
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(open_message::<LogLine>(ID, 7, &altered).is_err(), "bit {bit}");
        }
        let text = document(ID, &Map::from([("a".into(), 1)]));
        for bit in 0..text.len() * 8 {
            let mut altered = text.clone().into_bytes();
            altered[bit / 8] ^= 1 << (bit % 8);
            let Ok(altered) = String::from_utf8(altered) else {
                continue;
            };
            assert!(open_document::<Map>(ID, &altered).is_err(), "{altered}");
        }
    }

    #[test]
    fn rejects_moved_or_unsealed_row() {
        let line = LogLine { text: "said".into() };
        let bytes = message(ID, 7, &line);
        assert!(open_message::<LogLine>(ID, 8, &bytes).is_err());
        assert!(open_message::<LogLine>("000000000007-0000", 7, &bytes).is_err());
        for bare in [&line.encode_to_vec()[..], &[]] {
            assert!(open_message::<LogLine>(ID, 7, bare).is_err());
        }
        for bare in ["{\"a\":1}", ""] {
            assert!(open_document::<Map>(ID, bare).is_err());
        }
    }
}
