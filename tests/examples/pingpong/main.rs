//! The reference device on a real Ethernet link. It runs the protocol of `ibv_rc_pingpong` with a foreign adapter.
//!
//! `pingpong --interface NAME --ip ADDRESS [--ip ADDRESS] [--gid-index N] [--size BYTES] [--mtu BYTES] [--iterations N]
//! [--port N] [HOST]`: client with HOST, server without, like `ibv_rc_pingpong`. The kernel should have no address on
//! the interface, because the model responds to ARP and neighbour discovery itself. The last line of stdout has the
//! counts. The exit code is 0 if all messages arrived whole and unchanged.
//!
//! Source of the greeting, the attributes of the queue pair, and the order of messages: `ibv_rc_pingpong` in rdma-core
//! (`libibverbs/examples/{pingpong,rc_pingpong}.c`).

mod arguments;
mod exchange;
mod greeting;
mod handshake;
mod station;

use std::process::ExitCode;

use anyhow::{Context, bail};
use verbatim_device::rc::{
    Access, AdapterProfile, AddressVector, QpAttributes, QpHandle, QpState, ReceiveRequest, Service, Slice,
};
use verbatim_hw::ether::PacketSocket;
use verbatim_wire::{AckTimeout, MacAddress, Psn, Qpn, RnrTimer};

use self::{
    arguments::Arguments,
    exchange::{Counts, Exchange},
    greeting::Greeting,
    handshake::Handshake,
    station::Station,
};

/// Ethernet address of the model's port, a locally administered address.
const MAC: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x0b]);
/// Number of posted receive requests. One request would suffice, because the sides send in turn.
const SLOTS: u32 = 4;
/// First PSN that we send. The PSN wraps at the third packet.
const PSN: Psn = Psn(0x00FF_FFFE);

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("pingpong: {error:#}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(counts) => {
            println!(
                "role={} size={} mtu={} {counts}",
                if arguments.host.is_some() { "client" } else { "server" },
                arguments.size,
                arguments.mtu
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pingpong: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<Counts> {
    let socket = PacketSocket::open(&arguments.interface)?;
    let profile = AdapterProfile::new(MAC, &arguments.ips);
    let own_gid = profile.gids()[arguments.gid_index as usize];
    let mut station = Station::new(socket, profile);
    let (qp, qpn) = station.adapter.create_qp(Service::Rc, 8, 2 * SLOTS)?;
    let ring = station
        .adapter
        .register(SLOTS * arguments.size, Access::LOCAL)
        .context("memory for what comes")?;
    let outgoing = station
        .adapter
        .register(arguments.size, Access::LOCAL)
        .context("memory for what goes")?;
    let init = QpAttributes {
        pkey_index: Some(0),
        port: Some(1),
        access: Some(Access::default()),
        ..QpAttributes::default()
    };
    station.adapter.modify(qp, QpState::Init, &init)?;
    let slots: Vec<Slice> = (0..SLOTS)
        .map(|slot| Slice {
            memory: ring.handle,
            offset: slot * arguments.size,
            length: arguments.size,
        })
        .collect();
    for (number, &local) in (0..).zip(&slots) {
        let request = ReceiveRequest { wr_id: number, local };
        let now = station.now();
        station.adapter.post_receive(now, qp, &request)?;
    }
    let own = Greeting {
        lid: 0,
        qpn: qpn.0,
        psn: PSN.0,
        gid: own_gid,
    };
    let mut handshake = Handshake::begin(arguments.host.as_deref(), arguments.port);
    // Handle frames during the handshake: the other side may resolve our Ethernet address before it responds.
    handshake.connected(&mut station)?;
    if arguments.host.is_none() {
        let theirs = handshake.hear(&mut station)?;
        connect(&mut station, qp, arguments, &theirs)?;
        handshake.say(&own.line())?;
    } else {
        handshake.say(&own.line())?;
        let theirs = handshake.hear(&mut station)?;
        connect(&mut station, qp, arguments, &theirs)?;
        handshake.say(b"done\0")?;
    }
    let exchange = Exchange {
        qp,
        size: arguments.size,
        iterations: arguments.iterations,
        slots,
        outgoing: outgoing.handle,
        starts: arguments.host.is_some(),
    };
    let counts = exchange.run(&mut station)?;
    // The other side may still wait for our last ACK.
    station.finish()?;
    Ok(counts)
}

/// Brings the QP to RTS, with the attributes of `ibv_rc_pingpong`.
fn connect(station: &mut Station, qp: QpHandle, arguments: &Arguments, theirs: &Greeting) -> anyhow::Result<()> {
    let rtr = QpAttributes {
        path_mtu: Some(arguments.mtu_code()),
        dest_qpn: Some(Qpn(theirs.qpn)),
        rq_psn: Some(Psn(theirs.psn)),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: Some(RnrTimer(12)),
        address: Some(AddressVector {
            dgid: Some(theirs.gid),
            sgid_index: u8::try_from(arguments.gid_index).unwrap_or(u8::MAX),
            hop_limit: 1,
            ..AddressVector::default()
        }),
        ..QpAttributes::default()
    };
    let rts = QpAttributes {
        sq_psn: Some(PSN),
        // A busy machine may need more than the usual timeout of a tenth of a second for a long message.
        timeout: Some(AckTimeout(18)),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        max_rd_atomic: Some(1),
        ..QpAttributes::default()
    };
    let own_gid = station.adapter.profile().gids()[arguments.gid_index as usize];
    if theirs.gid.ip().is_ipv4() != own_gid.ip().is_ipv4() {
        bail!(
            "expected a GID of the family of ours, {own_gid}, seen {}: give both sides the index of one family",
            theirs.gid
        );
    }
    let context = || format!("connecting with what the other side said, {theirs:?}");
    station.adapter.modify(qp, QpState::Rtr, &rtr).with_context(context)?;
    station.adapter.modify(qp, QpState::Rts, &rts).with_context(context)?;
    Ok(())
}
