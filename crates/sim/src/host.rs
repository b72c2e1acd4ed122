//! The host of a model adapter: executes verbs commands as an agent does on a real host.

use core::time::Duration;

use verbatim_device::rc::{
    Adapter, AdapterProfile, AsyncEvent, Completion, MemoryHandle, QpHandle, ReceiveRequest, Refusal, SendRequest,
    Slice,
};
use verbatim_record::verbs::{Command, Event, OutOfRange, Reply, pb, qp_state, service};
use verbatim_wire::verbs::{AddressVector, QpAttributes, Work};
use verbatim_wire::{QKey, Qpn};

/// Executes a command on an adapter.
pub(crate) fn perform(adapter: &mut Adapter, now: Duration, command: &Command) -> Reply {
    adapter.tick(now);
    done(adapter, now, command).unwrap_or_else(|refusal| {
        Reply::Refused(pb::Refused {
            errno: refusal.errno,
            text: refusal.text,
        })
    })
}

/// Returns the adapter's next completion or asynchronous event, with its time.
pub(crate) fn told(adapter: &mut Adapter) -> Option<(Duration, Event)> {
    if let Some(completion) = adapter.poll_completion() {
        return Some((completion.at, Event::Completion(completion_of(&completion))));
    }
    let AsyncEvent { kind, qp, at } = adapter.poll_async()?;
    let event = pb::AsyncEvent {
        name: kind.to_string(),
        qp: qp.0,
    };
    Some((at, Event::AsyncEvent(event)))
}

fn done(adapter: &mut Adapter, now: Duration, command: &Command) -> Result<Reply, Refusal> {
    let ok = || Reply::Done(pb::Done {});
    Ok(match command {
        Command::Open(_) => Reply::Opened(opened(adapter)),
        Command::RegisterMemory(of) => {
            let memory = adapter.register(of.length, of.access.unwrap_or_default().into())?;
            Reply::Memory(pb::Memory {
                memory: memory.handle.0,
                address: memory.address,
                l_key: memory.l_key,
                r_key: memory.r_key.0,
            })
        }
        Command::CreateQp(of) => {
            let service = service(of.service).map_err(refused)?;
            let (qp, qpn) = adapter.create_qp(service, of.send_depth, of.receive_depth)?;
            Reply::Qp(pb::Qp { qp: qp.0, qpn: qpn.0 })
        }
        Command::ModifyQp(of) => {
            let named = of.attributes.as_ref().map(QpAttributes::try_from);
            let named = named.transpose().map_err(refused)?.unwrap_or_default();
            adapter.modify(QpHandle(of.qp), qp_state(of.state).map_err(refused)?, &named)?;
            ok()
        }
        Command::QueryQp(of) => Reply::Status(adapter.query(QpHandle(of.qp))?.into()),
        Command::PostSend(of) => {
            adapter.post_send(now, QpHandle(of.qp), &send_request(of)?)?;
            ok()
        }
        Command::PostReceive(of) => {
            let request = ReceiveRequest {
                wr_id: of.wr_id,
                local: slice(of.local),
            };
            adapter.post_receive(now, QpHandle(of.qp), &request)?;
            ok()
        }
        Command::ReadMemory(of) => Reply::Bytes(pb::Bytes {
            bytes: adapter.read_memory(slice(of.from))?,
        }),
        Command::WriteMemory(of) => {
            adapter.write_memory(MemoryHandle(of.memory), of.offset, &of.bytes)?;
            ok()
        }
        Command::DestroyQp(of) => {
            adapter.destroy(QpHandle(of.qp))?;
            ok()
        }
        Command::DeregisterMemory(of) => {
            adapter.deregister(MemoryHandle(of.memory))?;
            ok()
        }
        Command::DestroyAll(_) => {
            adapter.destroy_all();
            ok()
        }
    })
}

fn refused(OutOfRange(text): OutOfRange) -> Refusal {
    Refusal { errno: 22, text }
}

fn opened(adapter: &Adapter) -> pb::Opened {
    let profile = adapter.profile();
    let native = profile.infiniband.as_ref();
    let gids = profile.gids().into_iter().zip(0..).map(|(gid, index)| pb::Gid {
        index,
        gid: gid.0.to_vec(),
        kind: if native.is_some() { "IB" } else { "RoCE v2" }.into(),
    });
    pb::Opened {
        device: "model".into(),
        port: 1,
        firmware: env!("CARGO_PKG_VERSION").into(),
        // The same values as in the model's NodeInfo.
        vendor_id: 0x00_02c9,
        vendor_part_id: 0x1003,
        port_state: native.map_or(4, |port| port.state.0.into()),
        lid: native.map_or(0, |port| port.lid.0.into()),
        active_mtu: profile.mtu.0.into(),
        ethernet: native.is_none(),
        gids: gids.collect(),
        max_qp_rd_atom: profile.max_dest_rd_atomic.into(),
        max_qp_init_rd_atom: profile.max_rd_atomic.into(),
        atomics: profile.atomics,
        max_qp: profile.max_qps,
        host: "simulated".into(),
        local_ca_ack_delay: profile.local_ca_ack_delay().into(),
        capabilities: capabilities(profile).map(Box::new),
        ..pb::Opened::default()
    }
}

/// Returns the timer values that the adapter supports, if they are limited. An adapter without the SQD state does not
/// report the lack of the state. Instead, the adapter refuses the transition to SQD.
fn capabilities(profile: &AdapterProfile) -> Option<pb::Capabilities> {
    let codes = |codes: &[u8]| codes.iter().map(|code| u32::from(*code)).collect();
    let has = pb::Capabilities {
        timeouts: codes(&profile.timeouts),
        min_rnr_timers: codes(&profile.min_rnr_timers),
        ..pb::Capabilities::default()
    };
    (has != pb::Capabilities::default()).then_some(has)
}

fn completion_of(of: &Completion) -> pb::Completion {
    pb::Completion {
        qp: of.qp.0,
        wr_id: of.wr_id,
        status: of.status.0,
        opcode: of.opcode.0,
        byte_len: of.byte_len,
        imm: of.imm,
        vendor_error: 0,
    }
}

fn slice(of: Option<pb::Slice>) -> Slice {
    let of = of.unwrap_or_default();
    Slice {
        memory: MemoryHandle(of.memory),
        offset: of.offset,
        length: of.length,
    }
}

fn send_request(of: &pb::PostSend) -> Result<SendRequest, Refusal> {
    let work = Work::try_from(of).map_err(refused)?;
    let address = of.address.as_ref().map(AddressVector::try_from);
    Ok(SendRequest {
        wr_id: of.wr_id,
        operation: work.operation,
        local: slice(of.local),
        signaled: of.signaled,
        solicited: of.solicited,
        fence: of.fence,
        remote_address: work.remote_address,
        r_key: work.r_key,
        compare: work.compare,
        swap_add: work.swap_add,
        imm: work.imm,
        address: address.transpose().map_err(refused)?.unwrap_or_default(),
        remote_qpn: Qpn(of.remote_qpn),
        remote_qkey: QKey(of.remote_qkey),
    })
}
