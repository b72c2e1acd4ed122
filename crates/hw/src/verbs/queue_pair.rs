//! Queue pairs: made, modified, queried, posted to.

use std::{ffi::c_int, ptr::NonNull, sync::Arc, time::Duration};

use crate::ether::now;

use super::{
    completion::CompletionQueue,
    context::Context,
    error::VerbsError,
    ffi::{self, Zeroed, failure},
    generated::{self as c, ibv_qp_attr_mask as mask},
    memory::ProtectionDomain,
    modify::{Capacity, Diagnosis, Modify, QpAttributes},
    types::{QpState, QpType},
    work::{InFlight, ReceiveRequest, SendOperation, SendRequest, gather},
};

/// What [`QueuePair::query`] asks for: everything that it shows.
const QUERIED: u32 = mask::IBV_QP_STATE.0
    | mask::IBV_QP_CUR_STATE.0
    | mask::IBV_QP_ACCESS_FLAGS.0
    | mask::IBV_QP_PKEY_INDEX.0
    | mask::IBV_QP_PORT.0
    | mask::IBV_QP_QKEY.0
    | mask::IBV_QP_AV.0
    | mask::IBV_QP_PATH_MTU.0
    | mask::IBV_QP_TIMEOUT.0
    | mask::IBV_QP_RETRY_CNT.0
    | mask::IBV_QP_RNR_RETRY.0
    | mask::IBV_QP_RQ_PSN.0
    | mask::IBV_QP_MAX_QP_RD_ATOMIC.0
    | mask::IBV_QP_MIN_RNR_TIMER.0
    | mask::IBV_QP_SQ_PSN.0
    | mask::IBV_QP_MAX_DEST_RD_ATOMIC.0
    | mask::IBV_QP_PATH_MIG_STATE.0
    | mask::IBV_QP_CAP.0
    | mask::IBV_QP_DEST_QPN.0;

/// What a queue pair is made with.
#[derive(Clone, Debug)]
pub struct QueuePairSetup {
    /// Service: [`QpType::RC`], [`QpType::UC`] or [`QpType::UD`].
    pub kind: QpType,
    /// Where completions of sends go.
    pub send_cq: CompletionQueue,
    /// Where completions of receives go.
    pub receive_cq: CompletionQueue,
    /// Sizes asked for; the driver may give more.
    pub capacity: Capacity,
    /// Treat every send as signalled.
    pub signal_all: bool,
}

/// A queue pair. It is destroyed when dropped.
///
/// It keeps the memory and address handles of posted requests registered until a completion of the same queue, that one
/// or a later one, was polled; until it is reset; or until it is destroyed. So a region can be dropped at once, and
/// lives as long as the device may use it.
#[derive(Debug)]
pub struct QueuePair {
    pointer: NonNull<c::ibv_qp>,
    qpn: u32,
    kind: QpType,
    capacity: Capacity,
    in_flight: Arc<InFlight>,
    send_cq: CompletionQueue,
    receive_cq: CompletionQueue,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs may be called from any thread, several at once, with the same queue pair; we read none of its
// fields but the number, once, when it is made.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // Before the number is free for another queue pair.
        self.send_cq.leave(self.qpn);
        self.receive_cq.leave(self.qpn);
        // SAFETY: nobody else holds it; queues and domain are still there.
        unsafe { (self.domain.symbols().ibv_destroy_qp)(self.pointer.as_ptr()) };
        // What was in flight, the queues and the domain follow in this order.
    }
}

impl QueuePair {
    pub(super) fn new(domain: &ProtectionDomain, setup: &QueuePairSetup) -> Result<QueuePair, VerbsError> {
        const CALL: &str = "ibv_create_qp";
        let context = domain.context();
        for (name, cq) in [("send_cq", &setup.send_cq), ("receive_cq", &setup.receive_cq)] {
            if !cq.context().is(context) {
                let what = format!("{name} belongs to another context than the protection domain");
                return Err(context.inner.argument(CALL, what));
            }
        }
        if setup.kind.name().is_none() {
            let what = format!("service {}: expected RC, UC or UD", setup.kind);
            return Err(context.inner.argument(CALL, what));
        }
        let mut attributes = c::ibv_qp_init_attr::zeroed();
        attributes.send_cq = setup.send_cq.pointer();
        attributes.recv_cq = setup.receive_cq.pointer();
        attributes.cap = setup.capacity.to_c();
        attributes.qp_type = c::ibv_qp_type(setup.kind.0);
        attributes.sq_sig_all = setup.signal_all.into();
        // SAFETY: domain and queues exist and belong to one context.
        let pointer = unsafe { (domain.symbols().ibv_create_qp)(domain.pointer(), &raw mut attributes) };
        let pointer = context.inner.object(CALL, pointer)?;
        // SAFETY: the queue pair exists.
        let qpn = unsafe { pointer.as_ref().qp_num };
        let capacity = Capacity::from_c(&attributes.cap);
        let in_flight = Arc::new(InFlight::new(capacity.max_send_wr, capacity.max_recv_wr));
        setup.send_cq.enter(qpn, &in_flight);
        setup.receive_cq.enter(qpn, &in_flight);
        Ok(QueuePair {
            pointer,
            qpn,
            kind: setup.kind,
            capacity,
            in_flight,
            send_cq: setup.send_cq.clone(),
            receive_cq: setup.receive_cq.clone(),
            domain: domain.clone(),
        })
    }

    /// Queue pair number.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Service.
    #[must_use]
    pub fn kind(&self) -> QpType {
        self.kind
    }

    /// Sizes of the queues, as the driver made them.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Changes state and attributes: exactly those that `modify` has.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Modify`], with the attributes that are missing or too many for this transition.
    pub fn modify(&self, modify: &Modify) -> Result<(), VerbsError> {
        let (mut attributes, set) = modify.to_c();
        // SAFETY: the queue pair exists; the attributes are read before the call returns.
        let code = unsafe {
            (self.domain.symbols().ibv_modify_qp)(self.pointer.as_ptr(), &raw mut attributes, set.cast_signed())
        };
        if code == 0 {
            if modify.state == QpState::RESET {
                self.in_flight.clear();
            }
            return Ok(());
        }
        let seen = failure(code);
        // The refused call left the state as it was.
        let from = self
            .query_masked(mask::IBV_QP_STATE.0)
            .map_or(QpState(u32::MAX), |found| found.state);
        Err(VerbsError::Modify {
            device: self.context().name().to_owned(),
            qpn: self.qpn,
            from,
            to: modify.state,
            diagnosis: Box::new(Diagnosis::of_refusal(self.kind, from, modify, seen.raw_os_error())),
            seen,
        })
    }

    /// State and attributes, as the driver says they are.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn query(&self) -> Result<QpAttributes, VerbsError> {
        self.query_masked(QUERIED)
    }

    fn query_masked(&self, asked: u32) -> Result<QpAttributes, VerbsError> {
        let mut attributes = c::ibv_qp_attr::zeroed();
        let mut setup = c::ibv_qp_init_attr::zeroed();
        let query = self.domain.symbols().ibv_query_qp;
        // SAFETY: the queue pair exists; both structures are ours.
        let code = unsafe {
            query(
                self.pointer.as_ptr(),
                &raw mut attributes,
                asked.cast_signed(),
                &raw mut setup,
            )
        };
        self.check("ibv_query_qp", code)?;
        Ok(QpAttributes::from_c(&attributes, self.kind))
    }

    /// Puts a request into the send queue; gives when the driver was called, on CLOCK_MONOTONIC.
    ///
    /// # Errors
    ///
    /// [`VerbsError::OutOfRegion`] and [`VerbsError::Argument`] before anything was done; [`VerbsError::Call`] when the
    /// driver refused, with ENOMEM when the queue is full.
    pub fn post_send(&self, request: SendRequest) -> Result<Duration, VerbsError> {
        self.check_destination(&request)?;
        let (mut list, count) = self.list("ibv_post_send", &request.data)?;
        let mut wanted = request.to_c();
        wanted.sg_list = list.as_mut_ptr();
        wanted.num_sge = count;
        self.in_flight.send(request, || {
            let called_at = now();
            // SAFETY: the queue pair exists; the list outlives the call; memory and address handle are held by `in_flight`
            // during it and after it. A datagram has an address handle of this context, the rest none.
            let code = unsafe { ffi::post_send(self.pointer.as_ptr(), &mut wanted) };
            self.posted("ibv_post_send", code).map(|()| called_at)
        })
    }

    /// Puts a buffer into the receive queue; gives when the driver was called, on CLOCK_MONOTONIC.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send`].
    pub fn post_receive(&self, request: ReceiveRequest) -> Result<Duration, VerbsError> {
        let (mut list, count) = self.list("ibv_post_recv", &request.data)?;
        let mut wanted = c::ibv_recv_wr::zeroed();
        wanted.wr_id = request.wr_id;
        wanted.sg_list = list.as_mut_ptr();
        wanted.num_sge = count;
        self.in_flight.receive(request, || {
            let called_at = now();
            // SAFETY: as in post_send.
            let code = unsafe { ffi::post_recv(self.pointer.as_ptr(), &mut wanted) };
            self.posted("ibv_post_recv", code).map(|()| called_at)
        })
    }

    /// Drivers follow the address handle of a datagram without looking: it must be there, and one of theirs.
    fn check_destination(&self, request: &SendRequest) -> Result<(), VerbsError> {
        let what = match (self.kind == QpType::UD, &request.destination) {
            (true, None) => "a UD queue pair needs a destination with each send",
            (false, Some(_)) => {
                "only a UD queue pair takes a destination: this one sends where `modify` connected it to"
            }
            (true, Some(to)) if !to.address.context().is(self.context()) => {
                "the address handle belongs to another context than the queue pair"
            }
            (true, Some(_)) if !matches!(request.operation, SendOperation::Send | SendOperation::SendImm(_)) => {
                "a UD queue pair can send, with or without immediate data, and nothing else"
            }
            _ => return Ok(()),
        };
        Err(self.context().inner.argument("ibv_post_send", what))
    }

    fn list(&self, call: &'static str, data: &[super::Segment]) -> Result<(Vec<c::ibv_sge>, c_int), VerbsError> {
        let list = gather(data)?;
        let count = c_int::try_from(list.len()).map_err(|_| {
            self.context()
                .inner
                .argument(call, "more segments than any device takes")
        })?;
        Ok((list, count))
    }

    fn posted(&self, call: &'static str, code: Option<c_int>) -> Result<(), VerbsError> {
        let code = code.ok_or_else(|| self.context().inner.not_offered(call))?;
        self.check(call, code)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), VerbsError> {
        let what = format_args!("QP {:#x}", self.qpn);
        self.context().inner.check(call, what, code)
    }

    fn context(&self) -> &Context {
        self.domain.context()
    }

    #[cfg(test)]
    pub(super) fn in_flight(&self) -> (usize, usize) {
        self.in_flight.counts()
    }
}
