//! A tour of the verbs module on one device: two RC queue pairs talk to each other through it, and a UD one to itself.
//!
//! `verbs_tour [DEVICE [PORT [GID_INDEX]]]` prints each step with what it saw and ends with `tour complete`. Without
//! arguments it takes the first device, port 1, and on Ethernet the first RoCEv2 GID of IPv4, else the first RoCEv2 GID.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use verbatim_hw::verbs::{
    AccessFlags, AddressVector, Capacity, Completion, CompletionChannel, CompletionQueue, Context, Destination,
    GidEntry, GidType, GlobalRoute, Library, LinkLayer, MemoryRegion, Modify, ProtectionDomain, QpState, QpType,
    QueuePair, QueuePairSetup, ReceiveRequest, SendOperation, SendRequest, WcStatus,
};

const BOUND: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verbs_tour: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let library = Library::open()?;
    let devices = library.devices()?;
    for device in &devices {
        println!("device {} node GUID {:#018x}", device.name, device.node_guid);
    }
    let first = devices.first().map(|device| device.name.clone());
    let name = arguments.next().or(first).ok_or("no verbs device on this machine")?;
    let port: u8 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let index: Option<u32> = arguments.next().map(|text| text.parse()).transpose()?;

    let context = library.open_device(&name)?;
    let device = context.query_device()?;
    println!(
        "context {name}: fw {:?} vendor {:#x} part {:#x} ports {} max_qp_wr {} max_qp_rd_atom {} atomics {}",
        device.fw_ver,
        device.vendor_id,
        device.vendor_part_id,
        device.phys_port_cnt,
        device.max_qp_wr,
        device.max_qp_rd_atom,
        device.atomic_cap
    );
    let address = own_address(&context, port, index)?;
    println!("P_Key[0] {:#06x}", context.pkey(port, 0)?);

    let pd = context.create_protection_domain()?;
    let region = pd.register(8192, AccessFlags::ALL)?;
    println!(
        "MR address {:#x} lkey {:#x} rkey {:#x}",
        region.addr(),
        region.lkey(),
        region.rkey()
    );
    let channel = context.create_completion_channel()?;
    let cq = context.create_completion_queue(64, Some(&channel))?;
    println!("CQ with room for {}", cq.entries());
    let setup = QueuePairSetup {
        kind: QpType::RC,
        send_cq: cq.clone(),
        receive_cq: cq.clone(),
        capacity: Capacity::default(),
        signal_all: false,
    };
    let (a, b) = (pd.create_queue_pair(&setup)?, pd.create_queue_pair(&setup)?);
    println!("QPs {:#x} and {:#x}, capacity {:?}", a.qpn(), b.qpn(), a.capacity());
    match a.modify(&Modify::to(QpState::INIT)) {
        Err(error) => println!("refused as it should be: {error}"),
        Ok(()) => return Err("a QP went to INIT without any attribute".into()),
    }
    let mtu = context.query_port(port)?.active_mtu;
    for (from, to) in [(&a, &b), (&b, &a)] {
        connect(from, to.qpn(), port, &address, mtu)?;
        let seen = from.query()?;
        println!(
            "QP {:#x} {} to {:#x}, path_mtu {}, min_rnr_timer {}, rnr_retry {}",
            from.qpn(),
            seen.state,
            seen.dest_qpn,
            seen.path_mtu,
            seen.min_rnr_timer,
            seen.rnr_retry
        );
    }
    let waiting = Waiting {
        cq: &cq,
        channel: &channel,
    };
    exchange(&a, &b, &region, &waiting)?;
    datagram(&pd, &setup, &address, &region, &waiting)?;
    refuse(&a, &region, &waiting)?;
    while let Some(event) = context.next_event(Duration::ZERO)? {
        println!("event {} of {:?}", event.kind, event.subject);
    }
    println!("tour complete");
    Ok(())
}

/// The way from the port to itself.
fn own_address(context: &Context, port: u8, index: Option<u32>) -> Result<AddressVector, Box<dyn Error>> {
    let seen = context.query_port(port)?;
    println!(
        "port {port}: {} {} lid {} active_mtu {} GID table of {}",
        seen.state, seen.link_layer, seen.lid, seen.active_mtu, seen.gid_tbl_len
    );
    let table = context.gid_table(port)?;
    for entry in &table {
        println!(
            "GID[{}] {} {:?} interface {}",
            entry.index,
            entry.address(),
            entry.kind,
            entry.ndev_ifindex
        );
    }
    let v2 = |entry: &&GidEntry| entry.kind == GidType::RoceV2;
    let ipv4 = |entry: &&GidEntry| v2(entry) && entry.address().to_ipv4_mapped().is_some();
    let chosen = match index {
        Some(index) => table.iter().find(|entry| entry.index == index),
        None => table.iter().find(ipv4).or_else(|| table.iter().find(v2)),
    };
    let mut address = AddressVector {
        dlid: seen.lid,
        port,
        ..AddressVector::default()
    };
    if seen.link_layer == LinkLayer::ETHERNET || index.is_some() {
        let chosen = chosen.ok_or("no such GID: give the index of one of those above")?;
        println!("using GID[{}]", chosen.index);
        address.gid = Some(GlobalRoute {
            dgid: chosen.gid,
            sgid_index: u8::try_from(chosen.index)?,
            hop_limit: 64,
            ..GlobalRoute::default()
        });
    }
    Ok(address)
}

fn connect(
    qp: &QueuePair,
    other: u32,
    port: u8,
    address: &AddressVector,
    mtu: verbatim_hw::verbs::Mtu,
) -> Result<(), Box<dyn Error>> {
    qp.modify(&Modify {
        pkey_index: Some(0),
        port: Some(port),
        access: Some(AccessFlags::ALL),
        ..Modify::to(QpState::INIT)
    })?;
    qp.modify(&Modify {
        path_mtu: Some(mtu),
        dest_qpn: Some(other),
        rq_psn: Some(0x00ff_fffe),
        max_dest_rd_atomic: Some(2),
        min_rnr_timer: Some(12),
        address: Some(*address),
        ..Modify::to(QpState::RTR)
    })?;
    qp.modify(&Modify {
        sq_psn: Some(0x00ff_fffe),
        timeout: Some(14),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        max_rd_atomic: Some(2),
        ..Modify::to(QpState::RTS)
    })?;
    Ok(())
}

struct Waiting<'a> {
    cq: &'a CompletionQueue,
    channel: &'a CompletionChannel,
}

impl Waiting<'_> {
    /// Waits for that many completions, through the channel.
    fn completions(&self, count: usize) -> Result<Vec<Completion>, Box<dyn Error>> {
        let start = Instant::now();
        let mut seen = Vec::new();
        loop {
            self.cq.request_notify(false)?;
            self.cq.poll(&mut seen)?;
            if seen.len() >= count {
                return Ok(seen);
            }
            let left = BOUND.saturating_sub(start.elapsed());
            if self.channel.wait(left)?.is_none() {
                return Err(format!("{} of {count} completions within {BOUND:?}", seen.len()).into());
            }
        }
    }

    fn succeed(&self, what: &str, count: usize) -> Result<(), Box<dyn Error>> {
        for seen in self.completions(count)? {
            if seen.status != WcStatus::SUCCESS {
                return Err(format!("{what}: {seen:?}").into());
            }
            println!(
                "{what}: wr_id {} {} {} imm {:?}",
                seen.wr_id, seen.opcode, seen.status, seen.imm
            );
        }
        Ok(())
    }
}

fn expect(region: &MemoryRegion, offset: usize, expected: &[u8]) -> Result<(), Box<dyn Error>> {
    let seen = region.read(offset, expected.len())?;
    if seen == expected {
        return Ok(());
    }
    Err(format!("bytes at {offset}: expected {expected:02x?}, saw {seen:02x?}").into())
}

/// The first half of the region is the side of `a`, the second that of `b`.
fn exchange(a: &QueuePair, b: &QueuePair, region: &MemoryRegion, waiting: &Waiting<'_>) -> Result<(), Box<dyn Error>> {
    let (theirs, rkey) = (4096, region.rkey());
    let remote_address = region.addr() + theirs as u64;
    let bytes: Vec<u8> = (0..3000_u32).map(|n| n.to_le_bytes()[0]).collect();
    region.write(0, &bytes)?;

    let data = vec![region.segment(theirs, 4096)];
    b.post_receive(ReceiveRequest { wr_id: 1, data })?;
    a.post_send(SendRequest::new(2, SendOperation::SendImm(0xcafe)).with_data([region.segment(0, 3000)]))?;
    waiting.succeed("SEND", 2)?;
    expect(region, theirs, &bytes)?;

    let write = SendOperation::Write { remote_address, rkey };
    a.post_send(SendRequest::new(3, write).with_data([region.segment(1, 2999)]))?;
    waiting.succeed("WRITE", 1)?;
    expect(region, theirs, &bytes[1..])?;

    let read = SendOperation::Read { remote_address, rkey };
    a.post_send(SendRequest::new(4, read).with_data([region.segment(0, 2999)]))?;
    waiting.succeed("READ", 1)?;
    expect(region, 0, &bytes[1..])?;

    region.write(theirs, &7_u64.to_ne_bytes())?;
    let swap = SendOperation::CompareSwap {
        remote_address,
        rkey,
        compare: 7,
        swap: 1000,
    };
    a.post_send(SendRequest::new(5, swap).with_data([region.segment(0, 8)]))?;
    waiting.succeed("CmpSwap", 1)?;
    expect(region, 0, &7_u64.to_ne_bytes())?;
    let add = SendOperation::FetchAdd {
        remote_address,
        rkey,
        add: 24,
    };
    a.post_send(SendRequest::new(6, add).with_data([region.segment(8, 8)]))?;
    waiting.succeed("FetchAdd", 1)?;
    expect(region, 8, &1000_u64.to_ne_bytes())?;
    expect(region, theirs, &1024_u64.to_ne_bytes())
}

/// A UD queue pair sends to itself.
fn datagram(
    pd: &ProtectionDomain,
    setup: &QueuePairSetup,
    address: &AddressVector,
    region: &MemoryRegion,
    waiting: &Waiting<'_>,
) -> Result<(), Box<dyn Error>> {
    const QKEY: u32 = 0x1122_3344;
    const GRH: usize = 40;
    let qp = pd.create_queue_pair(&QueuePairSetup {
        kind: QpType::UD,
        ..setup.clone()
    })?;
    qp.modify(&Modify {
        pkey_index: Some(0),
        port: Some(address.port),
        qkey: Some(QKEY),
        ..Modify::to(QpState::INIT)
    })?;
    qp.modify(&Modify::to(QpState::RTR))?;
    qp.modify(&Modify {
        sq_psn: Some(0),
        ..Modify::to(QpState::RTS)
    })?;
    region.write(0, b"to whom it may concern")?;
    let data = vec![region.segment(4096, 1024)];
    qp.post_receive(ReceiveRequest { wr_id: 11, data })?;
    let request = SendRequest {
        destination: Some(Destination {
            address: pd.create_address_handle(address)?,
            qpn: qp.qpn(),
            qkey: QKEY,
        }),
        ..SendRequest::new(12, SendOperation::SendImm(7))
    };
    qp.post_send(request.with_data([region.segment(0, 22)]))?;
    waiting.succeed("UD SEND", 2)?;
    expect(region, 4096 + GRH, b"to whom it may concern")
}

/// A key that nobody has: the other side refuses, and both queue pairs end in error.
fn refuse(a: &QueuePair, region: &MemoryRegion, waiting: &Waiting<'_>) -> Result<(), Box<dyn Error>> {
    let read = SendOperation::Read {
        remote_address: region.addr(),
        rkey: !region.rkey(),
    };
    a.post_send(SendRequest::new(7, read).with_data([region.segment(0, 8)]))?;
    let seen = waiting.completions(1)?;
    println!("READ with a wrong R_Key: wr_id {} {}", seen[0].wr_id, seen[0].status);
    if seen[0].status != WcStatus::REM_ACCESS_ERR {
        return Err(format!("expected {}, saw {:?}", WcStatus::REM_ACCESS_ERR, seen[0]).into());
    }
    println!("QP {:#x} is now in {}", a.qpn(), a.query()?.state);
    Ok(())
}
