//! The header `:authority` of requests. Many clients of a unix socket send the path of the socket in it:
//! `%2Frun%2Fverbatim%2Fs` (grpcio since 1.58) or `/run/verbatim/s`. Neither is a host name, so h2 refuses the
//! request, without a message.
//!
//! The daemon does not use `:authority`. On the socket it therefore replaces each character of a path that no host
//! name has by `-`, before h2 reads the request. In HPACK (RFC 7541), `-` has a code of the same length as these
//! characters. So no length changes, and the compression state of both sides stays the same.

use tokio::io::ReadBuf;
use tonic::codegen::http::uri::Authority;

/// The length of the connection preface, which comes before the first frame.
const PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
/// The type of the frame that begins a request, and its flags that add fields.
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
/// The largest frame that h2 accepts.
const LARGEST_FRAME: usize = 16 << 10;
/// The number of `:authority` in the static table of HPACK.
const AUTHORITY: usize = 1;
/// The characters of paths that become `-`. All of them have Huffman codes of [`MENDED_BITS`] bits.
const OF_PATHS: [u8; 3] = *b"%/ ";
/// The Huffman code of `-`.
const MENDED_CODE: u8 = 0b01_0110;
const MENDED_BITS: usize = 6;

/// The received bytes that h2 has not read yet.
#[derive(Debug)]
pub(super) struct Requests {
    /// Whether a path is accepted as `:authority`.
    accepts_paths: bool,
    bytes: Vec<u8>,
    /// The number of bytes that h2 may read.
    checked: usize,
    /// The number of bytes until the next frame.
    until_frame: usize,
}

impl Requests {
    pub(super) fn new(accepts_paths: bool) -> Self {
        Self {
            accepts_paths,
            bytes: Vec::new(),
            checked: 0,
            until_frame: PREFACE,
        }
    }

    /// Adds received bytes. No bytes mean that the client sends no more. Returns the first `:authority` that h2 will
    /// refuse.
    pub(super) fn push(&mut self, received: &[u8]) -> Option<String> {
        self.bytes.extend_from_slice(received);
        let mut refused = None;
        while self.checked < self.bytes.len() {
            let rest = &mut self.bytes[self.checked..];
            if self.until_frame > 0 {
                let passed = self.until_frame.min(rest.len());
                self.until_frame -= passed;
                self.checked += passed;
                continue;
            }
            let [high, middle, low, kind, flags, _, _, _, _, content @ ..] = rest else {
                break;
            };
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            if *kind == HEADERS && length <= LARGEST_FRAME {
                // Keep the frame back until it is complete.
                let Some(content) = content.get_mut(..length) else {
                    break;
                };
                let wrong = self::refused(content, *flags, self.accepts_paths);
                refused = refused.or(wrong);
            }
            self.until_frame = FRAME_HEADER + length;
        }
        if received.is_empty() {
            self.checked = self.bytes.len();
        }
        refused
    }

    /// Passes bytes on to h2. Returns whether there were any.
    pub(super) fn pop(&mut self, into: &mut ReadBuf<'_>) -> bool {
        let count = self.checked.min(into.remaining());
        into.put_slice(&self.bytes[..count]);
        self.bytes.drain(..count);
        self.checked -= count;
        count > 0
    }
}

/// Returns the `:authority` of a HEADERS frame if h2 will refuse it. Replaces a path if paths are accepted.
fn refused(content: &mut [u8], flags: u8, accepts_paths: bool) -> Option<String> {
    let before = usize::from(flags & PADDED != 0) + if flags & PRIORITY != 0 { 5 } else { 0 };
    let block = content.get_mut(before..)?;
    let value = authority(block)?;
    let text = value.text(block)?;
    if is_accepted(&text) {
        return None;
    }
    if accepts_paths {
        value.replace_paths(block);
    }
    // Nothing else can change `text` to an accepted one.
    let text_now = value.text(block)?;
    (!is_accepted(&text_now)).then(|| String::from_utf8_lossy(&text).into_owned())
}

fn is_accepted(text: &[u8]) -> bool {
    Authority::try_from(text).is_ok()
}

/// The place of a string in a header block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Text {
    from: usize,
    to: usize,
    is_huffman: bool,
}

impl Text {
    /// Returns the string; `None` if it is malformed or has a character that no URI has.
    fn text(self, block: &[u8]) -> Option<Vec<u8>> {
        let bytes = block.get(self.from..self.to)?;
        match self.is_huffman {
            true => Some(letters(bytes)?.into_iter().map(|(_, letter)| letter).collect()),
            false => Some(bytes.to_vec()),
        }
    }

    fn replace_paths(self, block: &mut [u8]) {
        let bytes = &mut block[self.from..self.to];
        if !self.is_huffman {
            bytes
                .iter_mut()
                .filter(|byte| OF_PATHS.contains(byte))
                .for_each(|byte| *byte = b'-');
            return;
        }
        for (at, _) in letters(bytes)
            .into_iter()
            .flatten()
            .filter(|(_, letter)| OF_PATHS.contains(letter))
        {
            for bit in 0..MENDED_BITS {
                let (byte, mask) = ((at + bit) / 8, 0x80 >> ((at + bit) % 8));
                match MENDED_CODE >> (MENDED_BITS - 1 - bit) & 1 {
                    1 => bytes[byte] |= mask,
                    _ => bytes[byte] &= !mask,
                }
            }
        }
    }
}

/// Finds the value of `:authority` in a header block. Does not find a value that the block takes from an earlier
/// request, or whose end is in a later frame.
fn authority(block: &[u8]) -> Option<Text> {
    let mut at = 0;
    loop {
        let first = *block.get(at)?;
        let bits = match first {
            0x80.. => 7,
            0x40.. => 6,
            0x20.. => 5,
            _ => 4,
        };
        let (name, next) = integer(block, at, bits)?;
        at = next;
        if bits == 7 || bits == 5 {
            // A field from a table, or a new size of the table.
            continue;
        }
        let mut is_authority = name == AUTHORITY;
        if name == 0 {
            let name = string(block, at)?;
            is_authority = name.text(block).is_some_and(|name| name == b":authority");
            at = name.to;
        }
        let value = string(block, at)?;
        if is_authority {
            return Some(value);
        }
        at = value.to;
    }
}

/// Reads an integer whose first byte has this number of bits for it (RFC 7541, section 5.1). Returns the integer and
/// the position after it.
fn integer(block: &[u8], at: usize, bits: u32) -> Option<(usize, usize)> {
    let most = (1usize << bits) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    let mut at = at + 1;
    if value < most {
        return Some((value, at));
    }
    // No integer in a frame needs more than three further bytes.
    for shift in [0, 7, 14] {
        let byte = usize::from(*block.get(at)?);
        at += 1;
        value += (byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

fn string(block: &[u8], at: usize) -> Option<Text> {
    let is_huffman = block.get(at)? & 0x80 != 0;
    let (length, from) = integer(block, at, 7)?;
    let to = from + length;
    (to <= block.len()).then_some(Text { from, to, is_huffman })
}

/// The Huffman codes of the visible ASCII characters (RFC 7541, appendix B), by length in bits, in ascending order. The
/// code of each character is one higher than the code of the character before it.
const CODES: [(u32, &[u8]); 10] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
];

/// Decodes a Huffman string. Returns each character with the position of its code in bits.
fn letters(bytes: &[u8]) -> Option<Vec<(usize, u8)>> {
    let end = bytes.len() * 8;
    let (mut all, mut at) = (Vec::new(), 0);
    'letters: while at < end {
        // `first` is the code of the first character of a length.
        let (mut code, mut bits, mut first) = (0u32, 0, 0u32);
        for (length, of_length) in CODES {
            first <<= length - bits;
            while bits < length {
                let place = at + bits as usize;
                let Some(byte) = bytes.get(place / 8) else {
                    // Fewer bits than a character has are the padding, whose bits are all 1.
                    return (end - at < 8 && code + 1 == 1 << bits).then_some(all);
                };
                code = code << 1 | u32::from(byte >> (7 - place % 8) & 1);
                bits += 1;
            }
            if let Some(letter) = of_length.get((code - first) as usize) {
                all.push((at, *letter));
                at += length as usize;
                continue 'letters;
            }
            first += of_length.len() as u32;
        }
        return None;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn huffman(text: &str) -> Vec<u8> {
        let mut bits = String::new();
        for letter in text.bytes() {
            let (mut first, mut before) = (0, 0);
            for (length, of_length) in CODES {
                first <<= length - before;
                before = length;
                if let Some(at) = of_length.iter().position(|other| *other == letter) {
                    bits += &format!("{:0width$b}", first + at, width = length as usize);
                }
                first += of_length.len();
            }
        }
        let padded = bits.len().next_multiple_of(8);
        bits.extend(std::iter::repeat_n('1', padded - bits.len()));
        let byte = |at: usize| u8::from_str_radix(&bits[at..at + 8], 2).unwrap();
        (0..padded).step_by(8).map(byte).collect()
    }

    /// Returns the field `:authority`: with or without Huffman codes, its name from the static table or spelled out.
    fn field(value: &str, is_huffman: bool, is_spelled: bool) -> Vec<u8> {
        let mut field = match is_spelled {
            true => [b"\x40\x0A".as_slice(), b":authority"].concat(),
            false => vec![0x41],
        };
        let (mark, value) = if is_huffman {
            (0x80, huffman(value))
        } else {
            (0, value.into())
        };
        field.push(mark | u8::try_from(value.len()).unwrap());
        field.extend(value);
        field
    }

    fn request(authority: &[u8]) -> Vec<u8> {
        // :method POST, :scheme http, :path /x
        let block = [&[0x83, 0x86, 0x04, 2, b'/', b'x'], authority].concat();
        let length = u8::try_from(block.len()).unwrap();
        [[0, 0, length, HEADERS, 4, 0, 0, 0, 1].as_slice(), &block].concat()
    }

    fn passed(requests: &mut Requests) -> Vec<u8> {
        let mut space = [0; 4096];
        let mut into = ReadBuf::new(&mut space);
        requests.pop(&mut into);
        into.filled().to_vec()
    }

    #[test]
    fn huffman_codes_are_those_of_the_rfc() {
        let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(huffman("www.example.com"), coded);
        let read: Vec<u8> = letters(&coded).unwrap().into_iter().map(|(_, letter)| letter).collect();
        assert_eq!(read, b"www.example.com");
        assert_eq!(letters(&[0xFF; 4]), None);
    }

    #[test]
    fn path_becomes_an_accepted_authority() {
        for path in ["%2Frun%2Fverbatim%2Fs", "/run/my lab/s", "unix:/run/s"] {
            for (is_huffman, is_spelled) in [(false, false), (false, true), (true, false), (true, true)] {
                let mut requests = Requests::new(true);
                assert_eq!(requests.push(&[b' '; PREFACE]), None);
                let sent = request(&field(path, is_huffman, is_spelled));
                // The frame arrives in two parts.
                assert_eq!(requests.push(&sent[..20]), None);
                assert_eq!(passed(&mut requests).len(), PREFACE);
                assert_eq!(requests.push(&sent[20..]), None);
                let mended = path.replace(['%', '/', ' '], "-");
                let seen = passed(&mut requests);
                assert_eq!(seen, request(&field(&mended, is_huffman, is_spelled)), "{path}");
                assert!(is_accepted(mended.as_bytes()), "{mended}");
            }
        }
    }

    #[test]
    fn other_authorities_stay_and_refused_ones_are_told() {
        for (value, accepts_paths, is_refused) in [
            ("localhost", true, false),
            ("[::1]:7000", true, false),
            ("%2Frun%2Fs", false, true),
            ("a<b", true, true),
            ("", true, true),
        ] {
            let mut requests = Requests::new(accepts_paths);
            let sent = [vec![b' '; PREFACE], request(&field(value, true, false))].concat();
            let refused = requests.push(&sent);
            assert_eq!(refused.as_deref(), is_refused.then_some(value));
            assert_eq!(passed(&mut requests), sent, "{value}");
        }
    }

    #[test]
    fn any_bytes_pass_with_their_number() {
        let mut dice = 1u32;
        for length in 0..2000 {
            let mut bytes = vec![b' '; PREFACE];
            bytes.extend([0, 0, 40, HEADERS, 0x28, 0, 0, 0, 1]);
            for _ in 0..length % 60 {
                dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bytes.push((dice >> 24) as u8);
            }
            let mut requests = Requests::new(true);
            let _ = requests.push(&bytes);
            let _ = requests.push(&[]);
            assert_eq!(passed(&mut requests).len(), bytes.len());
        }
    }
}
