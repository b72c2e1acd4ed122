//! Work requests, and what they keep alive while they are on their way.

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

/// A piece of registered memory.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The memory.
    pub region: MemoryRegion,
    /// First byte, from the region's start.
    pub offset: usize,
    /// Length in bytes.
    pub length: u32,
}

/// One request for the send queue.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// What its completion is called.
    pub wr_id: u64,
    /// What to do. Remote addresses and keys go out as they are: a wrong one is the other side's to refuse.
    pub work: Work,
    /// Our side of it: where data comes from, or for reads and atomics where it goes.
    pub data: Option<Segment>,
    /// Make a completion on success too.
    pub signaled: bool,
    /// Wake the other side, if it waits for solicited completions only.
    pub solicited: bool,
    /// Wait for the reads and atomics before it.
    pub fence: bool,
    /// Where a datagram goes: for UD queue pairs, and for no others.
    pub destination: Option<Destination>,
}

/// Where a datagram goes.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The port and its address.
    pub address: AddressHandle,
    /// The queue pair there.
    pub qpn: Qpn,
    /// Its Q_Key. With the top bit set, that of our own queue pair goes out instead.
    pub qkey: QKey,
}

/// One request for the receive queue.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    /// What its completion is called.
    pub wr_id: u64,
    /// Where the message goes. On a UD queue pair 40 bytes more than the payload are needed: the GRH comes first.
    pub data: Option<Segment>,
}

impl Segment {
    /// As C has it, checked.
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
    /// As C has it, without its scatter/gather list.
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
            // `invalidate_rkey`, which lies at the same place.
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

/// The work requests of one queue pair that may still be on their way, in the order of their posts. They keep the
/// memory and the address handles that they were posted with.
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
    /// Beyond this many, the oldest have ended, or the driver would have refused the post: requests without a
    /// completion of their own do not pile up.
    most: usize,
}

/// What a posted request keeps.
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
            // Twice the next power of two: drivers round up.
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

    /// Posts a send with `post`, and keeps what it needs if that succeeds. Completions wait meanwhile.
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

    /// The same for a receive.
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

    /// Releases what `completion` says is over. A queue completes in order, so what was posted before is over too.
    ///
    /// The opcode tells the queue, but only on success. Of a failed request that both queues could have, nothing is
    /// released: what is kept too long does no harm.
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

    /// Releases all: the queue pair was reset.
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
