//! Reads NodeInfo of the node at the end of a directed route.
//!
//! `node_info DEVICE PORT PATH`, for example `node_info mlx5_0 1 0,1`. PATH lists 0 and then the egress port of each
//! hop, as for `smpquery -D`. PATH `0` is the device itself. The layouts are in the architecture, 14.2.1.2 and
//! 14.2.5.3.

use std::{error::Error, process::ExitCode, time::Duration};

use umad::{Destination, Library, MAD_LENGTH, Port};

/// Time limit for opening the port.
const OPENS_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for a response.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// The lower half of the transaction ID; the kernel uses the upper half.
const TRANSACTION: u32 = 1;
/// Offset of the attribute in a subnet management packet.
const ATTRIBUTE: usize = 64;
const INITIAL_PATH: usize = 128;
/// Largest number of hops in a directed route.
const HOPS_AT_MOST: usize = 63;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("node_info: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, port, path] = arguments.as_slice() else {
        return Err("usage: node_info DEVICE PORT PATH, for example: node_info mlx5_0 1 0,1".into());
    };
    let number = port
        .parse()
        .map_err(|error| format!("port {port:?}: {error}; expected a number, such as 1"))?;
    let ports: Result<Vec<u8>, _> = path.split(',').map(str::parse).collect();
    let is_route = |ports: &Vec<u8>| ports[0] == 0 && ports.len() <= HOPS_AT_MOST + 1;
    let path = ports.ok().filter(is_route).ok_or_else(|| {
        format!("path {path:?}: expected 0 and at most {HOPS_AT_MOST} port numbers behind it, such as 0,1")
    })?;
    let mut port = Port::open(&Library::open()?, device, number, OPENS_WITHIN)?;
    port.send(&get_node_info(&path), &Destination::DirectedRoute, ANSWERS_WITHIN)?;
    // Traps, and responses to other programs, may arrive in between.
    let answer = loop {
        let received = port
            .recv(ANSWERS_WITHIN * 2)?
            .ok_or("no answer, and the kernel does not say why")?;
        if received.mad[12..16] == TRANSACTION.to_be_bytes() {
            break received;
        }
    };
    if answer.status != 0 {
        let why = std::io::Error::from_raw_os_error(answer.status);
        return Err(format!("no answer over the route {path:?} within {ANSWERS_WITHIN:?}: {why}").into());
    }
    // The highest bit is the direction bit.
    let status = u16::from_be_bytes([answer.mad[4], answer.mad[5]]) & 0x7fff;
    if status != 0 {
        return Err(format!("the node answers with status {status:#06x}").into());
    }
    print(&answer.mad[ATTRIBUTE..]);
    Ok(())
}

/// Makes a SubnGet(NodeInfo) with a directed route.
fn get_node_info(path: &[u8]) -> [u8; MAD_LENGTH] {
    let mut mad = [0; MAD_LENGTH];
    // Base version, class, class version, method Get.
    mad[..4].copy_from_slice(&[1, 0x81, 1, 0x01]);
    // HopPointer 0 and HopCount.
    mad[7] = u8::try_from(path.len() - 1).expect("at most 63 hops");
    mad[12..16].copy_from_slice(&TRANSACTION.to_be_bytes());
    // NodeInfo.
    mad[16..18].copy_from_slice(&0x0011_u16.to_be_bytes());
    // No LID-routed part: DrSLID and DrDLID are the permissive LID.
    mad[32..36].fill(0xff);
    mad[INITIAL_PATH..INITIAL_PATH + path.len()].copy_from_slice(path);
    mad
}

fn print(attribute: &[u8]) {
    let number = |from: usize, to: usize| {
        attribute[from..to]
            .iter()
            .fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
    };
    let ports = attribute[3];
    println!(
        "NodeType {}, {ports} port{}, NodeGUID {:#018x}, PortGUID {:#018x}, device {:#06x}, vendor {:#08x}",
        attribute[2],
        if ports == 1 { "" } else { "s" },
        number(12, 20),
        number(20, 28),
        number(30, 32),
        number(37, 40),
    );
}
