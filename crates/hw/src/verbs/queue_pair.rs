//! Queue pairs: creation, modification, queries and posting.

use std::{ffi::c_int, io, ptr, ptr::NonNull, sync::Arc, time::Duration};

use crate::ether::now;

use verbatim_wire::{
    Psn,
    verbs::{Operation, QpAttributes, QpState, QpStatus, Service},
};

use super::{
    c::{self, ibv_qp_attr_mask as mask},
    completion::CompletionQueue,
    context::Context,
    error::VerbsError,
    ffi::{self, Zeroed, failure},
    memory::ProtectionDomain,
    modify::{state_from_c, to_c},
    work::{InFlight, ReceiveRequest, Segment, SendRequest},
};

/// The attributes that [`QueuePair::query`] requests.
const QUERIED: u32 = mask::IBV_QP_STATE.0 | mask::IBV_QP_RQ_PSN.0 | mask::IBV_QP_SQ_PSN.0;

/// A queue pair. It is destroyed when dropped.
///
/// A queue pair keeps the memory and the address handle of each posted request alive. It releases them after the caller
/// has polled the completion of that request or of a later request in the same queue. A reset or destruction of the
/// queue pair releases all of them. A caller may therefore drop a region right after the post: the region stays
/// registered as long as the device may use it.
#[derive(Debug)]
pub struct QueuePair {
    pointer: NonNull<c::ibv_qp>,
    qpn: u32,
    service: Service,
    port: u8,
    in_flight: Arc<InFlight>,
    queue: CompletionQueue,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs may be called from several threads at once with the same queue pair; only its number is read here,
// once, at creation.
unsafe impl Send for QueuePair {}
// SAFETY: as for Send.
unsafe impl Sync for QueuePair {}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // This call comes first: after the destruction, another queue pair may get the same number.
        self.queue.leave(self.qpn);
        // SAFETY: no other code holds it; queue and domain still exist.
        unsafe { (self.domain.symbols().ibv_destroy_qp)(self.pointer.as_ptr()) };
        // The fields `in_flight`, `queue` and `domain` are dropped afterwards, in this order.
    }
}

impl QueuePair {
    pub(super) fn new(
        domain: &ProtectionDomain,
        (service, port): (Service, u8),
        queue: &CompletionQueue,
        (send_depth, receive_depth): (u32, u32),
    ) -> Result<QueuePair, VerbsError> {
        const CALL: &str = "ibv_create_qp";
        let context = domain.context();
        if !queue.context().is(context) {
            let what = "the completion queue belongs to another context than the protection domain";
            return Err(context.inner.argument(CALL, what));
        }
        let mut attributes = c::ibv_qp_init_attr::zeroed();
        attributes.send_cq = queue.pointer();
        attributes.recv_cq = queue.pointer();
        attributes.cap = c::ibv_qp_cap {
            max_send_wr: send_depth,
            max_recv_wr: receive_depth,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        attributes.qp_type = match service {
            Service::Rc => c::ibv_qp_type::IBV_QPT_RC,
            Service::Ud => c::ibv_qp_type::IBV_QPT_UD,
        };
        // SAFETY: domain and queue exist and belong to one context.
        let pointer = unsafe { (domain.symbols().ibv_create_qp)(domain.pointer(), &raw mut attributes) };
        let pointer = context.inner.object(CALL, pointer)?;
        // SAFETY: the queue pair exists.
        let qpn = unsafe { pointer.as_ref().qp_num };
        let in_flight = Arc::new(InFlight::new(attributes.cap.max_send_wr, attributes.cap.max_recv_wr));
        queue.enter(qpn, &in_flight);
        Ok(QueuePair {
            pointer,
            qpn,
            service,
            port,
            in_flight,
            queue: queue.clone(),
            domain: domain.clone(),
        })
    }

    /// Returns the queue pair number.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Modifies the state and exactly the given attributes.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Modify`], which names the attributes.
    pub fn modify(&self, to: QpState, given: &QpAttributes) -> Result<(), VerbsError> {
        let (mut attributes, set, names) = to_c(to, given, self.port);
        // SAFETY: the queue pair exists; the attributes are read before the call returns.
        let code = unsafe {
            (self.domain.symbols().ibv_modify_qp)(self.pointer.as_ptr(), &raw mut attributes, set.cast_signed())
        };
        if code == 0 {
            if to == QpState::Reset {
                self.in_flight.clear();
            }
            return Ok(());
        }
        let seen = failure(code);
        Err(VerbsError::Modify {
            device: self.context().name().to_owned(),
            qpn: self.qpn,
            // A refused call leaves the state unchanged, so the query still returns the former state.
            from: self.query().ok().map(|found| found.state),
            to,
            given: names,
            seen,
        })
    }

    /// Returns the state and PSNs that the driver reports. Drivers differ in whether the PSNs advance.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn query(&self) -> Result<QpStatus, VerbsError> {
        const CALL: &str = "ibv_query_qp";
        let mut attributes = c::ibv_qp_attr::zeroed();
        let mut setup = c::ibv_qp_init_attr::zeroed();
        let query = self.domain.symbols().ibv_query_qp;
        let (place, asked) = (self.pointer.as_ptr(), QUERIED.cast_signed());
        // SAFETY: the queue pair exists; both structures are ours.
        let code = unsafe { query(place, &raw mut attributes, asked, &raw mut setup) };
        self.check(CALL, code)?;
        let state = state_from_c(attributes.qp_state).ok_or_else(|| {
            let seen = format!("expected a state of 0 to 6, seen {}", attributes.qp_state);
            let what = format!("QP {:#x}", self.qpn);
            self.context().inner.failed(CALL, &what, io::Error::other(seen))
        })?;
        Ok(QpStatus {
            state,
            sq_psn: Psn(attributes.sq_psn),
            rq_psn: Psn(attributes.rq_psn),
        })
    }

    /// Posts a request to the send queue. Returns the time of the call into the driver, on CLOCK_MONOTONIC.
    ///
    /// # Errors
    ///
    /// [`VerbsError::OutOfRegion`] or [`VerbsError::Argument`] if the request is invalid; it was not posted.
    /// [`VerbsError::Call`] if the driver refused the request, with ENOMEM if the queue is full.
    pub fn post_send(&self, request: SendRequest) -> Result<Duration, VerbsError> {
        self.check_destination(&request)?;
        let mut segment = request.data.as_ref().map(Segment::to_c).transpose()?;
        let mut wanted = request.to_c();
        (wanted.sg_list, wanted.num_sge) = list(&mut segment);
        self.in_flight.send(request, || {
            let called_at = now();
            // SAFETY: the queue pair exists; the segment outlives the call; `in_flight` holds memory and address handle
            // during the call and after it. A datagram has an address handle of this context, other requests have none.
            let code = unsafe { ffi::post_send(self.pointer.as_ptr(), &mut wanted) };
            self.posted("ibv_post_send", code).map(|()| called_at)
        })
    }

    /// Posts a buffer to the receive queue. Returns the time of the call into the driver, on CLOCK_MONOTONIC.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send`].
    pub fn post_receive(&self, request: ReceiveRequest) -> Result<Duration, VerbsError> {
        let mut segment = request.data.as_ref().map(Segment::to_c).transpose()?;
        let mut wanted = c::ibv_recv_wr::zeroed();
        wanted.wr_id = request.wr_id;
        (wanted.sg_list, wanted.num_sge) = list(&mut segment);
        self.in_flight.receive(request, || {
            let called_at = now();
            // SAFETY: as in post_send.
            let code = unsafe { ffi::post_recv(self.pointer.as_ptr(), &mut wanted) };
            self.posted("ibv_post_recv", code).map(|()| called_at)
        })
    }

    /// Checks the destination of a send request, because drivers use the address handle of a datagram without checks.
    fn check_destination(&self, request: &SendRequest) -> Result<(), VerbsError> {
        let what = match (self.service == Service::Ud, &request.destination) {
            (true, None) => "a UD queue pair needs a destination with each send",
            (false, Some(_)) => {
                "only a UD queue pair takes a destination: `modify` has connected this one to its destination"
            }
            (true, Some(to)) if !to.address.context().is(self.context()) => {
                "the address handle belongs to another context than the queue pair"
            }
            (true, Some(_)) if !matches!(request.work.operation, Operation::Send | Operation::SendImm) => {
                "a UD queue pair takes only SENDs, with or without immediate data"
            }
            _ => return Ok(()),
        };
        Err(self.context().inner.argument("ibv_post_send", what))
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

/// Returns a scatter/gather list of at most one segment, and its length.
fn list(segment: &mut Option<c::ibv_sge>) -> (*mut c::ibv_sge, c_int) {
    match segment {
        Some(segment) => (ptr::from_mut(segment), 1),
        None => (ptr::null_mut(), 0),
    }
}
