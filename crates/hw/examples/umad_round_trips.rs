//! Counts round trips of SubnGet(NodeInfo) over the directed route 0,1.
//!
//! `umad_round_trips DEVICE PORT COUNT WINDOW` prints `round_trips_per_s=…`. With a window of 1 one request is on its
//! way at a time; otherwise that many.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use verbatim_hw::umad::{Destination, Library, MAD_LENGTH, Port};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, port, count, window] = arguments.as_slice() else {
        return Err("usage: umad_round_trips DEVICE PORT COUNT WINDOW".into());
    };
    let (count, window): (u32, u32) = (count.parse()?, window.parse()?);
    let library = Library::open()?;
    for device in library.devices(Duration::from_secs(5))? {
        eprintln!("{device:?}");
    }
    let mut port = Port::open(&library, device, port.parse()?, Duration::from_secs(5))?;
    eprintln!("descriptor {}, traps {}", port.descriptor(), port.receives_traps());

    let deadline = Duration::from_millis(1000);
    let mut request = node_info();
    let (mut sent, mut answered, mut lost) = (0_u32, 0_u32, 0_u32);
    let start = Instant::now();
    while answered + lost < count {
        while sent < count && sent - answered - lost < window {
            request[12..16].copy_from_slice(&sent.to_be_bytes());
            port.send(&request, &Destination::DirectedRoute, deadline)?;
            sent += 1;
        }
        match port.recv(deadline)? {
            Some(received) if received.status == 0 => answered += 1,
            _ => lost += 1,
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "round_trips_per_s={:.0} answered={answered} lost={lost}",
        f64::from(count) / seconds
    );
    Ok(())
}

/// A directed-route Get of NodeInfo, one hop through port 1.
fn node_info() -> [u8; MAD_LENGTH] {
    let mut mad = [0; MAD_LENGTH];
    mad[..4].copy_from_slice(&[1, 0x81, 1, 0x01]); // Base version, class, class version, SubnGet.
    mad[7] = 1; // Hop count.
    mad[16..18].copy_from_slice(&0x0011_u16.to_be_bytes()); // NodeInfo.
    mad[32..36].fill(0xff); // Permissive source and destination LID.
    mad[129] = 1; // Initial path: out of port 1.
    mad
}
