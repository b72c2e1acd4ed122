//! Work requests, and the objects that they keep alive while they are outstanding.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use verbatim_wire::{
    QKey, Qpn,
    verbs::{Operation, WcStatus, Work},
};

use super::{
    c,
    completion::Completion,
    error::VerbsError,
    ffi::Zeroed,
    memory::{AddressHandle, MemoryRegion},
};

/// A part of registered memory.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The memory.
    pub region: MemoryRegion,
    /// Offset in bytes from the region's start.
    pub offset: usize,
    /// Length in bytes.
    pub length: u32,
}

/// A request for the send queue.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// Identifier that the completion returns.
    pub wr_id: u64,
    /// The operation. Remote addresses and keys are passed on unchanged, because the other side must check them.
    pub work: Work,
    /// Local memory: the source of the data, or the destination for READs and atomics.
    pub data: Option<Segment>,
    /// Whether success generates a completion. A failure always generates one.
    pub signaled: bool,
    /// Whether to set the Solicited Event bit of the message.
    pub solicited: bool,
    /// Whether the request waits for earlier READs and atomics.
    pub fence: bool,
    /// Destination of a datagram; only for UD queue pairs.
    pub destination: Option<Destination>,
}

/// The destination of a datagram.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Address of the destination port.
    pub address: AddressHandle,
    /// Queue pair at the destination.
    pub qpn: Qpn,
    /// Q_Key of that queue pair. If the top bit is set, the packet carries the Q_Key of the sending queue pair instead.
    pub qkey: QKey,
}

/// A request for the receive queue.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    /// Identifier that the completion returns.
    pub wr_id: u64,
    /// Memory for the message. A UD queue pair needs 40 bytes more than the payload, because the GRH precedes it.
    pub data: Option<Segment>,
}

impl Segment {
    /// Converts the segment to C, after a check of its range.
    pub(super) fn to_c(&self) -> Result<c::ibv_sge, VerbsError> {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let place = self.region.place(self.offset, length)?;
        Ok(c::ibv_sge {
            addr: place.addr() as u64,
            length: self.length,
            lkey: self.region.lkey(),
        })
    }
}

impl SendRequest {
    /// Converts the request to C, without its scatter/gather list.
    pub(super) fn to_c(&self) -> c::ibv_send_wr {
        use c::ibv_wr_opcode as opcode;

        let mut request = c::ibv_send_wr::zeroed();
        request.wr_id = self.wr_id;
        let flags = [
            (self.signaled, c::ibv_send_flags::IBV_SEND_SIGNALED),
            (self.solicited, c::ibv_send_flags::IBV_SEND_SOLICITED),
            (self.fence, c::ibv_send_flags::IBV_SEND_FENCE),
        ];
        request.send_flags = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag.0).sum();
        if let Some(destination) = &self.destination {
            request.wr.ud.ah = destination.address.pointer();
            request.wr.ud.remote_qpn = destination.qpn.0;
            request.wr.ud.remote_qkey = destination.qkey.0;
        }
        let Work {
            operation,
            remote_address: remote_addr,
            r_key,
            compare,
            swap_add,
            imm,
        } = self.work;
        let rkey = r_key.0;
        match operation {
            Operation::SendImm | Operation::WriteImm => c::word!(request).imm_data = imm.to_be(),
            // Sets the R_Key to invalidate, which is at the same offset.
            Operation::SendInvalidate => c::word!(request).imm_data = rkey,
            _ => {}
        }
        match operation {
            Operation::Write | Operation::WriteImm | Operation::Read => {
                request.wr.rdma.remote_addr = remote_addr;
                request.wr.rdma.rkey = rkey;
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let swaps = operation == Operation::CompareSwap;
                request.wr.atomic.remote_addr = remote_addr;
                request.wr.atomic.compare_add = if swaps { compare } else { swap_add };
                request.wr.atomic.swap = if swaps { swap_add } else { 0 };
                request.wr.atomic.rkey = rkey;
            }
            _ => {}
        }
        request.opcode = match operation {
            Operation::Send => opcode::IBV_WR_SEND,
            Operation::SendImm => opcode::IBV_WR_SEND_WITH_IMM,
            Operation::SendInvalidate => opcode::IBV_WR_SEND_WITH_INV,
            Operation::Write => opcode::IBV_WR_RDMA_WRITE,
            Operation::WriteImm => opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            Operation::Read => opcode::IBV_WR_RDMA_READ,
            Operation::CompareSwap => opcode::IBV_WR_ATOMIC_CMP_AND_SWP,
            Operation::FetchAdd => opcode::IBV_WR_ATOMIC_FETCH_AND_ADD,
        };
        request
    }
}

/// The work requests of a queue pair that may still be outstanding, in posting order. The list keeps their memory and
/// address handles alive.
#[derive(Debug)]
pub(super) struct InFlight {
    queues: Mutex<Queues>,
}

#[derive(Debug)]
struct Queues {
    send: Queue,
    receive: Queue,
}

#[derive(Debug)]
struct Queue {
    posted: VecDeque<Posted>,
    /// Maximum length of `posted`. If the driver accepts a request beyond this length, the oldest request must
    /// have completed, and is removed. Without this limit, the list of unsignaled requests would grow forever.
    most: usize,
}

/// The objects that a posted request keeps alive.
#[derive(Debug)]
struct Posted {
    wr_id: u64,
    _data: Option<Segment>,
    _destination: Option<Destination>,
}

impl Queue {
    fn new(max_wr: u32) -> Self {
        Self {
            posted: VecDeque::new(),
            // The limit is twice the next power of two, because drivers round the queue size up.
            most: usize::try_from(max_wr).unwrap_or(0).max(1).next_power_of_two() * 2,
        }
    }

    fn push(&mut self, posted: Posted) {
        if self.posted.len() >= self.most {
            self.posted.pop_front();
        }
        self.posted.push_back(posted);
    }

    fn position(&self, wr_id: u64) -> Option<usize> {
        self.posted.iter().position(|posted| posted.wr_id == wr_id)
    }
}

impl InFlight {
    pub(super) fn new(max_send_wr: u32, max_recv_wr: u32) -> Self {
        Self {
            queues: Mutex::new(Queues {
                send: Queue::new(max_send_wr),
                receive: Queue::new(max_recv_wr),
            }),
        }
    }

    /// Posts a send request with `post`. Keeps the objects of the request if `post` succeeds. A concurrent call of
    /// `completed` waits until `post` returns.
    pub(super) fn send<T, E>(&self, request: SendRequest, post: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let kept = Posted {
            wr_id: request.wr_id,
            _data: request.data,
            _destination: request.destination,
        };
        let mut queues = self.lock();
        let posted = post()?;
        queues.send.push(kept);
        Ok(posted)
    }

    /// Posts a receive request with `post`. Keeps the objects of the request if `post` succeeds. A concurrent call
    /// of `completed` waits until `post` returns.
    pub(super) fn receive<T, E>(&self, request: ReceiveRequest, post: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let kept = Posted {
            wr_id: request.wr_id,
            _data: request.data,
            _destination: None,
        };
        let mut queues = self.lock();
        let posted = post()?;
        queues.receive.push(kept);
        Ok(posted)
    }

    /// Releases the request of `completion` and all earlier requests of the same queue, because a queue completes
    /// requests in order.
    ///
    /// On success the opcode determines the queue. On a failure the opcode is meaningless: if both queues have a
    /// request with this `wr_id`, no request is released. Keeping an object too long does no harm.
    pub(super) fn completed(&self, completion: &Completion) {
        let mut queues = self.lock();
        let Queues { send, receive } = &mut *queues;
        let (at_send, at_receive) = (send.position(completion.wr_id), receive.position(completion.wr_id));
        let received = completion.opcode.is_receive();
        let (queue, position) = match (completion.status == WcStatus::SUCCESS, at_send, at_receive) {
            (true, _, Some(at)) if received => (receive, at),
            (true, Some(at), _) if !received => (send, at),
            (false, Some(at), None) => (send, at),
            (false, None, Some(at)) => (receive, at),
            _ => return,
        };
        queue.posted.drain(..=position);
    }

    /// Releases all requests after a reset of the queue pair.
    pub(super) fn clear(&self) {
        let mut queues = self.lock();
        queues.send.posted.clear();
        queues.receive.posted.clear();
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let queues = self.lock();
        (queues.send.posted.len(), queues.receive.posted.len())
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
