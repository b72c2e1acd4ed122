//! Checks general management through the kernel's umad on a RoCE port. The kernel must deliver responses, and must
//! return each request that gets no response. The kernel must preserve the low 32 bits of the transaction ID.
//!
//! `umad_gmp DEVICE PORT GID_INDEX DGID INTERFACE` sends requests from this GID of the port to queue pair 1 of another
//! port. The requests arrive at INTERFACE. The program prints a line for each check. The exit code is 0 if all checks
//! pass. rdma_rxe responds to GMPs of the Performance class with status 0x000C, because it lacks the counters.

use std::fmt::Display;
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use umad::{Destination, GlobalRoute, Library, Port, Received, SendError};
use verbatim_hw::ether::PacketSocket;
use verbatim_wire::{AttributeId, Mad, Medium, Method, Packet, Qpn};

const BOUND: Duration = Duration::from_secs(10);
/// Kernel timeout of a request without a response.
const TIMEOUT: Duration = Duration::from_millis(400);
/// Number of a queue pair that the other port does not have.
const NOBODY: u32 = 0x00ab_cdef;
const Q_KEY: u32 = 0x8001_0000;
/// The errno ETIMEDOUT.
const TIMED_OUT: i32 = 110;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("umad_gmp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, port, index, dgid, interface] = arguments.as_slice() else {
        bail!("usage: umad_gmp DEVICE PORT GID_INDEX DGID INTERFACE");
    };
    let dgid: Ipv6Addr = dgid.parse().with_context(|| format!("the GID {dgid:?}"))?;
    let route = GlobalRoute {
        dgid: dgid.octets(),
        sgid_index: index.parse().with_context(|| format!("the GID index {index:?}"))?,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    let number = port.parse().with_context(|| format!("the port {port:?}"))?;
    let wire = PacketSocket::open(interface)?;
    let mut port = Port::open(&Library::open()?, device, number, BOUND)?;
    ensure!(!port.receives_traps(), "a RoCE port registered subnet management");
    fact("subnet management", refused(&mut port)?);
    for attribute in [CLASS_PORT_INFO, AttributeId::PORT_COUNTERS] {
        fact("answered", answered(&mut port, route, attribute)?);
    }
    fact("returned", returned(&mut port, route, &wire)?);
    fact("answered after that", answered(&mut port, route, CLASS_PORT_INFO)?);
    Ok(())
}

fn fact(what: &str, seen: impl Display) {
    println!("{what}: {seen}");
}

const CLASS_PORT_INFO: AttributeId = AttributeId(0x0001);

fn to(qpn: u32, route: GlobalRoute) -> Destination {
    Destination::GsiGlobal {
        dlid: 0,
        sl: 0,
        qpn,
        qkey: Q_KEY,
        pkey_index: 0,
        route,
    }
}

/// Checks that the kernel refuses a class that no RoCE port has, and that the port still works.
fn refused(port: &mut Port) -> anyhow::Result<String> {
    let mad = Mad::directed(Method::GET, AttributeId::NODE_INFO, 0, &[1]);
    match port.send(mad.bytes(), &Destination::DirectedRoute, TIMEOUT) {
        Err(SendError::ClassRefused { class, seen, .. }) => Ok(format!("class {class:#04x} refused ({seen})")),
        seen => bail!("class 0x81 on a RoCE port: a refusal of the class was expected, seen {seen:?}"),
    }
}

/// Checks that the other port responds to a request. Returns a description of the response.
fn answered(port: &mut Port, route: GlobalRoute, attribute: AttributeId) -> anyhow::Result<String> {
    let mut data = [0; 4];
    data[1] = 1; // PortSelect of PortCounters
    let id = 0xa5a5_a5a5_0000_0000 | u64::from(attribute.0) << 16 | 0x5a5a;
    let mad = Mad::performance(Method::GET, attribute, 0)
        .with_transaction_id(id)
        .with_data(&data);
    port.send(mad.bytes(), &to(1, route), BOUND)?;
    let received = port.recv(BOUND)?.context("no answer, and no request back")?;
    ensure!(
        received.status == 0,
        "an answer was expected, the request came back with status {}",
        received.status
    );
    let answer = Mad::from(received.mad);
    ensure!(
        answer.method() == Method::GET_RESP && answer.attribute_id() == attribute,
        "GetResp({attribute}) was expected, seen {}({})",
        answer.method(),
        answer.attribute_id()
    );
    ensure!(
        low(answer.transaction_id()) == low(id),
        "another transaction id: {answer:?}"
    );
    ensure!(
        received.gid == Some(route.dgid),
        "the GID of the addressee was expected, seen {:?}",
        received.gid
    );
    Ok(format!(
        "{}({:#06x}) status {:#06x} from {}, low 32 bits of the transaction id kept, high ones {}",
        answer.method(),
        answer.attribute_id().0,
        answer.status().0,
        Ipv6Addr::from(route.dgid),
        if answer.transaction_id() == id {
            "kept"
        } else {
            "overwritten"
        }
    ))
}

fn low(transaction_id: u64) -> u32 {
    (transaction_id & 0xffff_ffff) as u32
}

/// Checks that the kernel sends a request once, and returns the request once after its timeout if there is no response.
/// Until then the kernel must refuse another request with the same low bits of the transaction ID.
fn returned(port: &mut Port, route: GlobalRoute, wire: &PacketSocket) -> anyhow::Result<String> {
    let id = 0x0101_0101_7777_7777;
    let mad = Mad::performance(Method::GET, CLASS_PORT_INFO, 0).with_transaction_id(id);
    let start = Instant::now();
    port.send(mad.bytes(), &to(NOBODY, route), TIMEOUT)?;
    let again = mad.with_transaction_id(id ^ 0xffff_ffff_0000_0000);
    match port.send(again.bytes(), &to(NOBODY, route), TIMEOUT) {
        Err(SendError::Refused { .. }) => {}
        seen => bail!("a second request with the same low 32 bits: a refusal was expected, seen {seen:?}"),
    }
    let Received {
        status, mad, length, ..
    } = port.recv(BOUND)?.context("the request did not come back")?;
    let took = start.elapsed();
    ensure!(status == TIMED_OUT, "status {TIMED_OUT} was expected, seen {status}");
    ensure!(took >= TIMEOUT, "it came back after {took:?}, before its time");
    ensure!(
        low(Mad::from(mad).transaction_id()) == low(id),
        "another transaction id came back: {mad:02x?}"
    );
    // A retry would appear in the next interval.
    if let Some(more) = port.recv(2 * TIMEOUT)? {
        bail!("it came back twice: {more:?}");
    }
    let mut seen = 0;
    while let Some(frame) = wire.receive(Duration::ZERO)? {
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes);
        seen += u32::from(packet.is_ok_and(|packet| packet.bth().dest_qp() == Qpn(NOBODY)));
    }
    ensure!(
        seen == 1,
        "it was on the wire {seen} times; once was expected, without retries"
    );
    ensure!(wire.dropped() == 0, "frames were lost on the way to this program");
    Ok(format!(
        "once, status {status}, {length} bytes, not before its time; on the wire once"
    ))
}
