//! The commands of a session, one function each.

use std::collections::BTreeMap;

use verbatim_proto::agent as proto;
use verbatim_proto::agent::{Command, Reply, command, qp_state, reply, service};
use verbatim_wire::verbs::{QpAttributes, QpState, Work};

use super::limits::counted;
use super::{Done, Held, MAX_TRANSFER, Region, Session, refused};
use crate::clock::now_ns;
use crate::device::{Device, Failure, Memory, Pair};
use crate::values::{Datagram, Piece, SendPost, WorkRequest};

type Answer = Result<reply::Kind, Failure>;

const DONE: reply::Kind = reply::Kind::Done(proto::Done {});

impl<D: Device> Session<D> {
    /// Executes a command. If it fails, the reply is a [`proto::Refused`] with the reason, and the session goes on.
    pub fn execute(&mut self, command: &Command) -> Done {
        // Polls first, for three reasons. The time of a completion of this post must not begin before this poll. A
        // queue pair loses its completions when it is destroyed. Memory of completed requests is no longer in use.
        let mut before = self.completions(now_ns()).happened;
        // Events of a queue pair are lost when it is destroyed, so the session reads them first.
        if matches!(
            command.kind,
            Some(command::Kind::DestroyQp(_) | command::Kind::DestroyAll(_))
        ) {
            self.reports(&mut before);
        }
        let begun = now_ns();
        let answer = match &self.gone {
            Some(why) => Err(Failure::refused(format!("the device is gone: {why}"))),
            None => self.answer(command),
        };
        let begun = self.called_ns.take().unwrap_or(begun);
        self.active_ns = begun;
        let after = self.completions(begun);
        let at = proto::Instant {
            earliest_ns: begun,
            latest_ns: after.first_ns.unwrap_or_else(now_ns),
        };
        if answer.as_ref().is_err_and(|failure| failure.errno != 0) {
            self.look_for_device();
        }
        before.extend(after.happened);
        self.reports_if_due(&mut before);
        let reply = answer.map_or_else(refused, |kind| Reply { kind: Some(kind) });
        Done { before, at, reply }
    }

    fn answer(&mut self, command: &Command) -> Answer {
        match &command.kind {
            Some(command::Kind::Open(proto::Open {})) => Ok(reply::Kind::Opened(self.device.describe()?)),
            Some(command::Kind::RegisterMemory(asked)) => self.register(asked),
            Some(command::Kind::CreateQp(asked)) => self.create_qp(asked),
            Some(command::Kind::ModifyQp(asked)) => {
                let to = qp_state(asked.state)?;
                let given = asked.attributes.as_ref().map(QpAttributes::try_from).transpose()?;
                let held = self.pair(asked.qp)?;
                held.pair.modify(to, &given.unwrap_or_default())?;
                if to == QpState::Reset {
                    // RESET drops posted requests without a completion.
                    held.posted = 0;
                    held.names.clear();
                }
                Ok(DONE)
            }
            Some(command::Kind::QueryQp(asked)) => Ok(reply::Kind::Status(self.pair(asked.qp)?.pair.query()?.into())),
            Some(command::Kind::PostSend(asked)) => self.post_send(asked),
            Some(command::Kind::PostReceive(asked)) => self.post_receive(asked),
            Some(command::Kind::ReadMemory(asked)) => self.read(asked.from),
            Some(command::Kind::WriteMemory(asked)) => self.write(asked),
            Some(command::Kind::DestroyQp(asked)) => {
                self.pair(asked.qp)?;
                self.pairs.remove(&asked.qp);
                Ok(DONE)
            }
            Some(command::Kind::DeregisterMemory(asked)) => self.deregister(asked.memory),
            Some(command::Kind::DestroyAll(proto::DestroyAll {})) => {
                self.pairs.clear();
                self.memory.clear();
                Ok(DONE)
            }
            None => Err(Failure::refused(
                "the command is empty or of a kind that this agent does not know; expected one of \
                 verbatim.agent.v1.Command: agent and tester must be of one version",
            )),
        }
    }

    fn register(&mut self, asked: &proto::RegisterMemory) -> Answer {
        let held = self.memory.values().map(|region| counted(region.length)).sum();
        self.limits.check_memory(held, asked.length)?;
        let handle = self.new_handle()?;
        let memory = self
            .device
            .register(size(asked.length), asked.access.unwrap_or_default().into())?;
        let made = proto::Memory {
            memory: handle,
            address: memory.address(),
            l_key: memory.l_key(),
            r_key: memory.r_key(),
        };
        let length = asked.length;
        self.memory.insert(handle, Region { memory, length });
        Ok(reply::Kind::Memory(made))
    }

    fn deregister(&mut self, handle: u32) -> Answer {
        find_region(&self.memory, handle)?;
        // The device could still write into memory that a posted request names.
        if let Some((qp, _)) = self.pairs.iter().find(|(_, held)| held.names.contains(&handle)) {
            return Err(Failure::refused(format!(
                "requests on queue pair {qp} use memory {handle} and have not completed, or do not signal success; \
                 destroy the queue pair first, or move it to ERR and let them complete"
            )));
        }
        self.memory.remove(&handle);
        Ok(DONE)
    }

    fn create_qp(&mut self, asked: &proto::CreateQp) -> Answer {
        let service = service(asked.service)?;
        self.limits.check_queue_pairs(self.pairs.len())?;
        self.limits.check_depths(asked.send_depth, asked.receive_depth)?;
        let qp = self.new_handle()?;
        let empty_ns = now_ns();
        let pair = self
            .device
            .create_pair(service, asked.send_depth, asked.receive_depth)?;
        let qpn = pair.qpn();
        let held = Held {
            pair,
            service,
            empty_ns,
            posted: 0,
            names: Vec::new(),
        };
        self.pairs.insert(qp, held);
        Ok(reply::Kind::Qp(proto::Qp { qp, qpn }))
    }

    fn post_send(&mut self, asked: &proto::PostSend) -> Answer {
        let work = Work::try_from(asked)?;
        let held = find_pair(&mut self.pairs, asked.qp)?;
        let post = WorkRequest::Send(SendPost {
            wr_id: asked.wr_id,
            work,
            local: piece(&self.memory, asked.local)?,
            signaled: asked.signaled,
            solicited: asked.solicited,
            fence: asked.fence,
            to: Datagram::of(asked, held.service)?,
        });
        self.called_ns = Some(held.pair.post(&post)?);
        held.note(asked.local);
        Ok(DONE)
    }

    fn post_receive(&mut self, asked: &proto::PostReceive) -> Answer {
        let held = find_pair(&mut self.pairs, asked.qp)?;
        let (wr_id, into) = (asked.wr_id, piece(&self.memory, asked.local)?);
        self.called_ns = Some(held.pair.post(&WorkRequest::Receive { wr_id, into })?);
        held.note(asked.local);
        Ok(DONE)
    }

    fn read(&mut self, from: Option<proto::Slice>) -> Answer {
        let from = from.ok_or_else(|| Failure::refused("read_memory has no field from; give the slice to read"))?;
        check_transfer(from.length)?;
        // A slice without bytes still names memory, which must exist.
        let bytes = match piece(&self.memory, Some(from))? {
            Some(piece) => piece.memory.read(piece.offset, piece.length)?,
            None => Vec::new(),
        };
        Ok(reply::Kind::Bytes(proto::Bytes { bytes }))
    }

    fn write(&mut self, asked: &proto::WriteMemory) -> Answer {
        let length = u32::try_from(asked.bytes.len()).unwrap_or(u32::MAX);
        check_transfer(length)?;
        let to = proto::Slice {
            memory: asked.memory,
            offset: asked.offset,
            length,
        };
        if let Some(piece) = piece(&self.memory, Some(to))? {
            piece.memory.write(piece.offset, &asked.bytes)?;
        }
        Ok(DONE)
    }

    fn pair(&mut self, handle: u32) -> Result<&mut Held<D::Pair>, Failure> {
        find_pair(&mut self.pairs, handle)
    }
}

impl<P> Held<P> {
    /// Records a posted request and the memory that it names.
    fn note(&mut self, local: Option<proto::Slice>) {
        self.posted += 1;
        if let Some(slice) = local
            && !self.names.contains(&slice.memory)
        {
            self.names.push(slice.memory);
        }
    }
}

type Pairs<P> = BTreeMap<u32, Held<P>>;
type Regions<M> = BTreeMap<u32, Region<M>>;

fn find_pair<P>(pairs: &mut Pairs<P>, handle: u32) -> Result<&mut Held<P>, Failure> {
    if !pairs.contains_key(&handle) {
        let exist = handles(pairs.keys());
        return Err(Failure::refused(format!(
            "this session has no queue pair {handle}; it has {exist}"
        )));
    }
    Ok(pairs.get_mut(&handle).expect("it is there"))
}

fn find_region<M>(memory: &Regions<M>, handle: u32) -> Result<&Region<M>, Failure> {
    memory.get(&handle).ok_or_else(|| {
        Failure::refused(format!(
            "this session has no memory {handle}; it has {}",
            handles(memory.keys())
        ))
    })
}

/// Lists handles for a message, at most 8.
fn handles<'a>(keys: impl ExactSizeIterator<Item = &'a u32>) -> String {
    const SHOWN: usize = 8;
    let all = keys.len();
    let shown: Vec<String> = keys.take(SHOWN).map(ToString::to_string).collect();
    match all {
        0 => "none".into(),
        _ if all > SHOWN => format!("{} and {} more", shown.join(", "), all - SHOWN),
        _ => shown.join(", "),
    }
}

/// Returns the memory that a slice names, or `None` if the slice is absent or has no bytes.
fn piece<M>(memory: &Regions<M>, slice: Option<proto::Slice>) -> Result<Option<Piece<'_, M>>, Failure> {
    let Some(slice) = slice else { return Ok(None) };
    let region = find_region(memory, slice.memory)?;
    if u64::from(slice.offset) + u64::from(slice.length) > u64::from(region.length) {
        return Err(Failure::refused(format!(
            "bytes {}..{} are not inside memory {}, which has {} bytes",
            slice.offset,
            u64::from(slice.offset) + u64::from(slice.length),
            slice.memory,
            region.length
        )));
    }
    Ok((slice.length > 0).then(|| Piece {
        memory: &region.memory,
        offset: size(slice.offset),
        length: size(slice.length),
    }))
}

fn check_transfer(length: u32) -> Result<(), Failure> {
    if length > MAX_TRANSFER {
        return Err(Failure::refused(format!(
            "one command may read or write at most {MAX_TRANSFER} bytes, not {length}; use several commands"
        )));
    }
    Ok(())
}

fn size(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
