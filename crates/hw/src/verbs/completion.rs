//! Completion queues.

use std::{
    collections::HashMap,
    ffi::c_int,
    ptr::{self, NonNull},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use verbatim_wire::verbs::{WcOpcode, WcStatus};

use crate::ether::now;

use super::{
    c,
    context::Context,
    error::VerbsError,
    ffi::{self, Zeroed},
    work::InFlight,
};

/// Maximum number of completions that one call into the driver takes.
const BATCH: usize = 8;

/// The result of [`CompletionQueue::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Number of completions taken.
    pub taken: usize,
    /// Time on CLOCK_MONOTONIC just after the driver delivered the last completion; `None` if no completion was
    /// taken.
    pub at: Option<Duration>,
}

/// The completion of a work request (`struct ibv_wc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The identifier from the work request.
    pub wr_id: u64,
    /// Status. On a failure, the only other valid fields are `wr_id` and `vendor_err`.
    pub status: WcStatus,
    /// Operation that completed.
    pub opcode: WcOpcode,
    /// The vendor's error code.
    pub vendor_err: u32,
    /// Bytes moved, for receives, READs and atomics. On a UD queue pair, the number includes the 40 bytes before the
    /// payload.
    pub byte_len: u32,
    /// Immediate data of the received message, if any.
    pub imm: Option<u32>,
    /// Number of the local queue pair.
    pub(super) qp_num: u32,
}

impl From<&c::ibv_wc> for Completion {
    fn from(seen: &c::ibv_wc) -> Self {
        let (status, opcode) = (WcStatus(seen.status), WcOpcode(seen.opcode));
        // The flags are meaningless on a failure and for send requests.
        let received = status == WcStatus::SUCCESS && opcode.is_receive();
        let has_imm = received && seen.wc_flags & c::ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
        Completion {
            wr_id: seen.wr_id,
            status,
            opcode,
            vendor_err: seen.vendor_err,
            byte_len: seen.byte_len,
            // SAFETY: both members of the union are a plain number.
            imm: has_imm.then(|| u32::from_be(unsafe { c::word!(seen).imm_data })),
            qp_num: seen.qp_num,
        }
    }
}

/// A completion queue.
///
/// Cheap to clone. It is destroyed with the last clone and the last queue pair that uses it.
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    inner: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    pointer: NonNull<c::ibv_cq>,
    /// Outstanding work requests, by queue pair number. A completion releases them.
    queue_pairs: Mutex<HashMap<u32, Arc<InFlight>>>,
    context: Context,
}

// SAFETY: libibverbs may be called from several threads at once with the same queue; the fields read here do not
// change.
unsafe impl Send for Queue {}
// SAFETY: as for Send.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: every queue pair that uses the queue holds an Arc of this, so none exists any more.
        unsafe { (self.context.inner.symbols().ibv_destroy_cq)(self.pointer.as_ptr()) };
    }
}

impl Context {
    /// Creates a completion queue with space for at least `entries`.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], [`VerbsError::Argument`] for more entries than 2^31 - 1.
    pub fn create_completion_queue(&self, entries: u32) -> Result<CompletionQueue, VerbsError> {
        const CALL: &str = "ibv_create_cq";
        let Ok(count) = c_int::try_from(entries) else {
            let what = format!("{entries} entries: expected at most {}", c_int::MAX);
            return Err(self.inner.argument(CALL, what));
        };
        let (cookie, channel) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the context is open; the queue sends no notifications, so it has neither cookie nor channel.
        let pointer = unsafe { (self.inner.symbols().ibv_create_cq)(self.pointer(), count, cookie, channel, 0) };
        let inner = Queue {
            pointer: self.inner.object(CALL, pointer)?,
            queue_pairs: Mutex::default(),
            context: self.clone(),
        };
        let inner = Arc::new(inner);
        Ok(CompletionQueue { inner })
    }
}

impl CompletionQueue {
    /// Returns the number of completions that the queue can hold.
    pub(super) fn entries(&self) -> usize {
        // SAFETY: the queue exists.
        usize::try_from(unsafe { self.inner.pointer.as_ref().cqe }).unwrap_or(0)
    }

    /// Appends the available completions to `completions`, in order, and does not wait. Takes at most as many
    /// completions as the queue can hold. If it took that many, call `poll` again.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], [`VerbsError::NotOffered`]. `completions` holds the completions taken before the error.
    pub fn poll(&self, completions: &mut Vec<Completion>) -> Result<Polled, VerbsError> {
        let device = &self.inner.context.inner;
        let most = self.entries().max(1);
        let (mut taken, mut polled_at) = (0, None);
        // The driver fills the array. The array is zeroed, so that a driver that reports too many completions cannot
        // expose old memory.
        let mut room: [c::ibv_wc; BATCH] = std::array::from_fn(|_| c::ibv_wc::zeroed());
        while taken < most {
            let asked = BATCH.min(most - taken);
            // SAFETY: the queue exists.
            let code = unsafe { ffi::poll_cq(self.inner.pointer.as_ptr(), &mut room[..asked]) };
            let code = code.ok_or_else(|| device.not_offered("ibv_poll_cq"))?;
            let Ok(count) = usize::try_from(code) else {
                return Err(device.failed("ibv_poll_cq", "", ffi::failure(code)));
            };
            let count = count.min(asked);
            if count > 0 {
                polled_at = Some(now());
            }
            for seen in &room[..count] {
                let completion = Completion::from(seen);
                self.release(&completion);
                completions.push(completion);
            }
            taken += count;
            if count < asked {
                break;
            }
        }
        Ok(Polled { taken, at: polled_at })
    }

    pub(super) fn context(&self) -> &Context {
        &self.inner.context
    }

    pub(super) fn pointer(&self) -> *mut c::ibv_cq {
        self.inner.pointer.as_ptr()
    }

    pub(super) fn enter(&self, qpn: u32, in_flight: &Arc<InFlight>) {
        self.queue_pairs().insert(qpn, Arc::clone(in_flight));
    }

    pub(super) fn leave(&self, qpn: u32) {
        self.queue_pairs().remove(&qpn);
    }

    fn release(&self, completion: &Completion) {
        let in_flight = self.queue_pairs().get(&completion.qp_num).map(Arc::clone);
        if let Some(in_flight) = in_flight {
            in_flight.completed(completion);
        }
    }

    fn queue_pairs(&self) -> MutexGuard<'_, HashMap<u32, Arc<InFlight>>> {
        self.inner.queue_pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
