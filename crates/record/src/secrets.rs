//! Hides M_Keys in texts for people who may not use them: each key becomes `M_Key #1`, `M_Key #2`, and so on.

use std::collections::BTreeMap;

use verbatim_wire::packet::{Medium, Packet};
use verbatim_wire::trap::m_key_of;
use verbatim_wire::{AttributeId, Mad, Notice, PortInfo};

use crate::Entry;

/// The length of a key in hexadecimal digits.
const DIGITS: u32 = 16;
/// Words before a 64-bit number that is an M_Key.
const KEYS: [&str; 4] = ["M_Key", "MKEY", "mkey", "key"];
/// Words before a 64-bit number that everybody may know. Without any of these words, a number counts as an M_Key.
const PUBLIC: [&str; 8] = ["GUID", "guid", "GID", "GidPrefix", "VA", "SwapDt", "CmpDt", "original"];
/// The number of the trap that reports an M_Key.
const BAD_M_KEY: u16 = 256;
/// How many bytes before a number are searched for such a word.
const BEFORE: usize = 400;
/// The maximum number of keys that get a number of their own.
const MOST: usize = 10_000;

/// The M_Keys to hide, each with its number.
#[derive(Clone, Debug, Default)]
pub struct Secrets(BTreeMap<u64, usize>);

impl Secrets {
    /// Adds a key. M_Key 0 is no secret: it means that there is no key.
    pub fn learn(&mut self, key: u64) {
        let next = (self.0.len() + 1).min(MOST);
        if key != 0 {
            self.0.entry(key).or_insert(next);
        }
    }

    /// Adds the keys of an entry of a record.
    pub fn learn_entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Begin(begin) => self.learn(begin.rig_key.0),
            Entry::Sent(sent) => self.learn_mad(&sent.mad),
            Entry::Arrived(arrived) => self.learn_mad(&arrived.mad),
            Entry::Frame(frame) => {
                let medium = match frame.delimiter {
                    Some(_) => Medium::InfiniBand,
                    None => Medium::Ethernet,
                };
                if let Ok(packet) = Packet::parse(medium, &frame.bytes)
                    && let Ok(mad) = Mad::with_trailing_zeros(packet.payload())
                {
                    self.learn_mad(&mad);
                }
            }
            _ => {}
        }
    }

    fn learn_mad(&mut self, mad: &Mad) {
        if !mad.is_smp() {
            return;
        }
        self.learn(mad.m_key().0);
        if mad.attribute_id() == AttributeId::PORT_INFO {
            self.learn(mad.attribute::<PortInfo>().m_key().0);
        }
        if mad.attribute_id() == AttributeId::NOTICE && mad.attribute::<Notice>().trap_number() == BAD_M_KEY {
            self.learn(m_key_of(mad).0);
        }
    }

    /// Adds the keys in texts that belong together, such as the parts of a finding: each 64-bit number in hexadecimal,
    /// unless the nearest word before it says that it is none.
    pub fn learn_texts<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) {
        let mut is_public = false;
        for text in texts {
            for (at, key) in numbers(text) {
                if !noun(&text[..at]).unwrap_or(is_public) {
                    self.learn(key);
                }
            }
            is_public = noun(text).unwrap_or(is_public);
        }
    }

    /// Returns a text without the known keys. Also finds a key whose digits have blanks between them.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.into();
        }
        let (mut shown, mut done) = (String::with_capacity(text.len()), 0);
        // The last digits, and where each of them is.
        let (mut value, mut places, mut count) = (0u64, [0; DIGITS as usize], 0u32);
        for (at, c) in text.char_indices() {
            let Some(digit) = c.to_digit(16) else {
                count = if c == ' ' { count } else { 0 };
                continue;
            };
            value = value << 4 | u64::from(digit);
            places.rotate_left(1);
            places[places.len() - 1] = at;
            count += 1;
            if count >= DIGITS
                && let Some(number) = self.0.get(&value)
            {
                let before = &text[done..places[0]];
                let before = before.strip_suffix("0x").unwrap_or(before);
                shown.push_str(before);
                let is_named = before.ends_with("M_Key ");
                shown.push_str(if is_named { "#" } else { "M_Key #" });
                shown.push_str(&number.to_string());
                (done, count) = (at + 1, 0);
            }
        }
        shown.push_str(&text[done..]);
        shown
    }

    /// Replaces the known keys in the bytes of a packet by their numbers. Returns whether there was one.
    pub fn hide_bytes(&self, bytes: &mut [u8]) -> bool {
        let (mut at, mut found) = (0, false);
        while let Some(eight) = bytes.get_mut(at..at + 8) {
            let key = <[u8; 8]>::try_from(&*eight).map(u64::from_be_bytes);
            match key.ok().and_then(|key| self.0.get(&key)) {
                Some(number) => {
                    eight.copy_from_slice(&(*number as u64).to_be_bytes());
                    (at, found) = (at + 8, true);
                }
                None => at += 1,
            }
        }
        found
    }
}

/// Returns a text without M_Keys. The numbers of the keys count within this text.
#[must_use]
pub fn without_m_keys(text: &str) -> String {
    let mut secrets = Secrets::default();
    secrets.learn_texts([text]);
    secrets.hide(text)
}

/// Returns the 64-bit numbers of a text in the form 0x0123456789abcdef, each with its place.
fn numbers(text: &str) -> impl Iterator<Item = (usize, u64)> {
    text.match_indices("0x").filter_map(|(at, _)| {
        let digits = &text.as_bytes()[at + 2..];
        let count = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
        let key = u64::from_str_radix(text.get(at + 2..at + 2 + count)?, 16).ok()?;
        (count == DIGITS as usize).then_some((at, key))
    })
}

/// Returns whether the last word of [`PUBLIC`] or [`KEYS`] in a text is one of [`PUBLIC`]; `None` without such a word.
fn noun(text: &str) -> Option<bool> {
    let mut begin = text.len().saturating_sub(BEFORE);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    let text = &text[begin..];
    let last = |words: &[&str]| words.iter().filter_map(|word| text.rfind(word)).max();
    match (last(&PUBLIC), last(&KEYS)) {
        (None, None) => None,
        (public, key) => Some(public > key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use verbatim_wire::Layout as _;

    const KEY: u64 = 0x83ee_f1b5_7472_3f2b;

    #[test]
    fn hides_m_keys_but_not_guids() {
        let text = "M_Key 0x83eef1b574723f2b, again 0x83EEF1B574723F2B; M_Key 0x0000000000000000, \
                    key 0x0000000000000001, NodeGUID 0x0002c90300000001, 83 ee f1 b5 74 72 3f 2b";
        assert_eq!(
            without_m_keys(text),
            "M_Key #1, again M_Key #1; M_Key 0x0000000000000000, key M_Key #2, NodeGUID 0x0002c90300000001, M_Key #1"
        );
        // A number without a name counts as a key.
        assert_eq!(without_m_keys("seen 0x83eef1b574723f2b"), "seen M_Key #1");
        assert_eq!(without_m_keys("é 0x 0x12 0xé"), "é 0x 0x12 0xé");
    }

    #[test]
    fn name_counts_for_the_texts_after_it() {
        let mut secrets = Secrets::default();
        secrets.learn_texts(["C14-24 NodeGUID", "0x0002c90300000001", "0x83eef1b574723f2b"]);
        assert_eq!(secrets.hide("0x83eef1b574723f2b"), "0x83eef1b574723f2b");
        secrets.learn_texts(["C14-16 M_Key", "0x83eef1b574723f2b"]);
        assert_eq!(secrets.hide("x0x83eef1b574723f2b"), "xM_Key #1");
    }

    #[test]
    fn hides_keys_of_a_record() {
        let mut secrets = Secrets::default();
        let info = PortInfo::default().with_m_key(verbatim_wire::MKey(KEY));
        let set = Mad::directed(verbatim_wire::Method::SET, AttributeId::PORT_INFO, 1, &[1]);
        let mut set = set.with_m_key(verbatim_wire::MKey(7)).with_data(info.bytes());
        secrets.learn_mad(&set);
        assert_eq!(
            secrets.hide("0x83eef1b574723f2b 0x0000000000000007"),
            "M_Key #2 M_Key #1"
        );
        assert!(secrets.hide_bytes(set.bytes_mut()));
        assert_eq!((set.m_key().0, set.attribute::<PortInfo>().m_key().0), (1, 2));
    }
}
