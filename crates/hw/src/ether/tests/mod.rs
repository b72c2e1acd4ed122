//! Stamps, datagrams, and frames through a veth pair in a network namespace of the test's own.

mod datagram;
mod stamp;
mod veth;

/// A frame of `length` bytes of an Ethertype that nobody speaks, marked with `mark`.
fn frame(length: usize, mark: u8) -> Vec<u8> {
    let mut frame = vec![mark; length];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 0x77]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 0x01]);
    frame[12..14].copy_from_slice(&OURS);
    frame
}

/// For local experiments.
const OURS: [u8; 2] = [0x88, 0xb5];
