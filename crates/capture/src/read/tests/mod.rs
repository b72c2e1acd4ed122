//! Captures of every format: complete, cut off and damaged.

mod broken;
mod erf;
mod files;
mod formats;
mod layers;
mod packed;

use std::io::{self, Read};

use super::{CaptureError, Captured, Content, Reader, Tunnel};

/// An owned copy of a [`Captured`].
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    number: u64,
    offset: u64,
    time: String,
    content: Content,
    bytes: Vec<u8>,
    tunnel: Option<Tunnel>,
    is_bare: bool,
    is_whole: bool,
}

impl From<Captured<'_>> for Seen {
    fn from(packet: Captured<'_>) -> Self {
        Self {
            number: packet.number,
            offset: packet.offset,
            time: packet.time.map_or_else(|| "-".into(), |time| time.to_string()),
            content: packet.content,
            bytes: packet.bytes.to_vec(),
            tunnel: packet.tunnel,
            is_bare: packet.is_bare,
            is_whole: packet.is_whole,
        }
    }
}

/// A reader that returns at most three bytes per call, as a pipe may.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(3);
        self.0.read(&mut buffer[..most])
    }
}

fn all(input: impl Read) -> (Vec<Seen>, Option<CaptureError>) {
    let mut seen = Vec::new();
    let mut reader = match Reader::new(input) {
        Ok(reader) => reader,
        Err(error) => return (seen, Some(error)),
    };
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => seen.push(Seen::from(packet)),
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
    }
}

/// Reads the packets up to the first error; asserts that a pipe with short reads gives the same result.
fn read(capture: &[u8]) -> (Vec<Seen>, Option<String>) {
    let (seen, error) = all(capture);
    let (in_drops, error_in_drops) = all(Drops(capture));
    assert_eq!(seen, in_drops);
    let error = error.map(|error| error.to_string());
    assert_eq!(error, error_in_drops.map(|error| error.to_string()));
    (seen, error)
}

fn packets(capture: &[u8]) -> Vec<Seen> {
    let (seen, error) = read(capture);
    assert_eq!(error, None);
    seen
}

fn error(capture: &[u8]) -> String {
    read(capture).1.unwrap()
}
