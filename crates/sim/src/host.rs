//! The host of a model adapter: does what a verbs command says, as an agent would on a real host.

use core::time::Duration;

use verbatim_device::rc::{
    Access, Adapter, AddressVector, AsyncEvent, Completion, Gid, MemoryHandle, Operation, QpAttributes, QpHandle,
    QpState, ReceiveRequest, Refusal, SendRequest, Service, Slice,
};
use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, Psn, QKey, Qpn, RKey, RnrTimer};

/// Does a command on an adapter.
pub(crate) fn perform(adapter: &mut Adapter, now: Duration, command: &Command) -> Reply {
    adapter.tick(now);
    done(adapter, now, command).unwrap_or_else(|refusal| {
        Reply::Refused(pb::Refused {
            errno: refusal.errno,
            text: refusal.text,
        })
    })
}

/// The next thing that the adapter tells, and when it happened.
pub(crate) fn told(adapter: &mut Adapter) -> Option<(Duration, Event)> {
    if let Some(completion) = adapter.poll_completion() {
        return Some((completion.at, Event::Completion(completion_of(&completion))));
    }
    let AsyncEvent { kind, qp, at } = adapter.poll_async()?;
    let event = pb::AsyncEvent {
        name: kind.name().into(),
        qp: qp.0,
    };
    Some((at, Event::AsyncEvent(event)))
}

fn done(adapter: &mut Adapter, now: Duration, command: &Command) -> Result<Reply, Refusal> {
    let ok = || Reply::Done(pb::Done {});
    Ok(match command {
        Command::Open(_) => Reply::Opened(opened(adapter)),
        Command::RegisterMemory(of) => {
            let memory = adapter.register(of.length, access(of.access.as_ref()))?;
            Reply::Memory(pb::Memory {
                memory: memory.handle.0,
                address: memory.address,
                l_key: memory.l_key,
                r_key: memory.r_key.0,
            })
        }
        Command::CreateQp(of) => {
            let service = match of.service() {
                pb::Service::Ud => Service::Ud,
                _ => Service::Rc,
            };
            let (qp, qpn) = adapter.create_qp(service, of.send_depth, of.receive_depth)?;
            Reply::Qp(pb::Qp { qp: qp.0, qpn: qpn.0 })
        }
        Command::ModifyQp(of) => {
            let given = of.attributes.clone().unwrap_or_default();
            let state = state(of.state()).ok_or_else(|| refused("expected a state to go to"))?;
            adapter.modify(QpHandle(of.qp), state, &attributes(&given)?)?;
            ok()
        }
        Command::QueryQp(of) => {
            let status = adapter.query(QpHandle(of.qp))?;
            Reply::Status(pb::QpStatus {
                state: state_out(status.state).into(),
                sq_psn: status.sq_psn.0,
                rq_psn: status.rq_psn.0,
            })
        }
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

fn refused(text: &str) -> Refusal {
    Refusal {
        errno: 22,
        text: text.into(),
    }
}

fn opened(adapter: &Adapter) -> pb::Opened {
    let profile = adapter.profile();
    let gids = profile.gids().into_iter().zip(0..).map(|(gid, index)| pb::Gid {
        index,
        gid: gid.0.to_vec(),
        kind: "RoCE v2".into(),
    });
    pb::Opened {
        device: "model".into(),
        port: 1,
        firmware: env!("CARGO_PKG_VERSION").into(),
        // As NodeInfo of the model has them.
        vendor_id: 0x00_02c9,
        vendor_part_id: 0x1003,
        port_state: 4,
        active_mtu: profile.mtu.0.into(),
        ethernet: true,
        gids: gids.collect(),
        max_qp_rd_atom: profile.max_dest_rd_atomic.into(),
        max_qp_init_rd_atom: profile.max_rd_atomic.into(),
        atomics: profile.atomics,
        max_qp: profile.max_qps,
        host: "simulated".into(),
        ..pb::Opened::default()
    }
}

fn completion_of(of: &Completion) -> pb::Completion {
    pb::Completion {
        qp: of.qp.0,
        wr_id: of.wr_id,
        status: of.status.code(),
        opcode: of.opcode.code(),
        byte_len: of.byte_len,
        imm: of.imm,
        vendor_error: 0,
    }
}

fn access(of: Option<&pb::Access>) -> Access {
    of.map_or(
        Access {
            local_write: false,
            remote_write: false,
            remote_read: false,
            remote_atomic: false,
        },
        |of| Access {
            local_write: of.local_write,
            remote_write: of.remote_write,
            remote_read: of.remote_read,
            remote_atomic: of.remote_atomic,
        },
    )
}

fn slice(of: Option<pb::Slice>) -> Slice {
    let of = of.unwrap_or_default();
    Slice {
        memory: MemoryHandle(of.memory),
        offset: of.offset,
        length: of.length,
    }
}

fn state(of: pb::QpState) -> Option<QpState> {
    Some(match of {
        pb::QpState::Unspecified => return None,
        pb::QpState::Reset => QpState::Reset,
        pb::QpState::Init => QpState::Init,
        pb::QpState::Rtr => QpState::Rtr,
        pb::QpState::Rts => QpState::Rts,
        pb::QpState::Sqd => QpState::Sqd,
        pb::QpState::Sqe => QpState::Sqe,
        pb::QpState::Err => QpState::Err,
    })
}

fn state_out(of: QpState) -> pb::QpState {
    match of {
        QpState::Reset => pb::QpState::Reset,
        QpState::Init => pb::QpState::Init,
        QpState::Rtr => pb::QpState::Rtr,
        QpState::Rts => pb::QpState::Rts,
        QpState::Sqd => pb::QpState::Sqd,
        QpState::Sqe => pb::QpState::Sqe,
        QpState::Err => pb::QpState::Err,
    }
}

fn byte(of: Option<u32>, name: &str) -> Result<Option<u8>, Refusal> {
    of.map(|value| u8::try_from(value).map_err(|_| refused(&format!("{name} is {value}; expected at most 255"))))
        .transpose()
}

fn attributes(of: &pb::QpAttributes) -> Result<QpAttributes, Refusal> {
    Ok(QpAttributes {
        pkey_index: of.pkey_index,
        port: of.port,
        access: of.access.as_ref().map(|of| access(Some(of))),
        path_mtu: byte(of.path_mtu, "path_mtu")?.map(Mtu),
        dest_qpn: of.dest_qpn.map(Qpn),
        rq_psn: of.rq_psn.map(Psn),
        sq_psn: of.sq_psn.map(Psn),
        max_dest_rd_atomic: of.max_dest_rd_atomic,
        max_rd_atomic: of.max_rd_atomic,
        min_rnr_timer: byte(of.min_rnr_timer, "min_rnr_timer")?.map(RnrTimer),
        timeout: byte(of.timeout, "timeout")?.map(AckTimeout),
        retry_cnt: of.retry_cnt,
        rnr_retry: of.rnr_retry,
        qkey: of.qkey.map(QKey),
        address: of.address.as_ref().map(address).transpose()?,
    })
}

fn address(of: &pb::AddressVector) -> Result<AddressVector, Refusal> {
    let gid = match of.dgid.as_slice() {
        [] => None,
        bytes => Some(Gid(bytes
            .try_into()
            .map_err(|_| refused(&format!("a GID of {} bytes; expected 16", bytes.len())))?)),
    };
    Ok(AddressVector {
        dgid: gid,
        sgid_index: of.sgid_index,
        hop_limit: u8::try_from(of.hop_limit).unwrap_or(u8::MAX),
        traffic_class: u8::try_from(of.traffic_class).unwrap_or(u8::MAX),
        flow_label: of.flow_label,
        dlid: u16::try_from(of.dlid).unwrap_or(u16::MAX),
        sl: u8::try_from(of.sl).unwrap_or(u8::MAX),
    })
}

fn send_request(of: &pb::PostSend) -> Result<SendRequest, Refusal> {
    let operation = match of.operation() {
        pb::Operation::Unspecified => return Err(refused("expected an operation")),
        pb::Operation::Send => Operation::Send,
        pb::Operation::SendImm => Operation::SendImm,
        pb::Operation::SendInvalidate => Operation::SendInvalidate,
        pb::Operation::Write => Operation::Write,
        pb::Operation::WriteImm => Operation::WriteImm,
        pb::Operation::Read => Operation::Read,
        pb::Operation::CompareSwap => Operation::CompareSwap,
        pb::Operation::FetchAdd => Operation::FetchAdd,
    };
    Ok(SendRequest {
        wr_id: of.wr_id,
        operation,
        local: slice(of.local),
        signaled: of.signaled,
        solicited: of.solicited,
        fence: of.fence,
        remote_address: of.remote_address,
        r_key: RKey(of.r_key),
        compare: of.compare,
        swap_add: of.swap_add,
        imm: of.imm,
        address: of.address.as_ref().map(address).transpose()?.unwrap_or_default(),
        remote_qpn: Qpn(of.remote_qpn),
        remote_qkey: QKey(of.remote_qkey),
    })
}
