//! Tests of stamps, datagram pairs, and packet sockets. Each test of packet sockets has its own network namespace with
//! a veth pair.

mod datagram;
mod stamp;
mod veth;

/// Makes a frame of `length` bytes with an Ethertype that no protocol uses, marked with `mark`.
fn frame(length: usize, mark: u8) -> Vec<u8> {
    let mut frame = vec![mark; length];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 0x77]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 0x01]);
    frame[12..14].copy_from_slice(&OURS);
    frame
}

/// Ethertype for local experiments.
const OURS: [u8; 2] = [0x88, 0xb5];
