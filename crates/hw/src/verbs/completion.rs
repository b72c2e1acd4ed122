//! Completion queues and the channel that tells that one is worth polling.

use std::{
    collections::HashMap,
    ffi::c_int,
    io,
    ptr::{self, NonNull},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    ether::now,
    wait::{set_nonblocking, wait},
};

use super::{
    context::Context,
    error::VerbsError,
    ffi::{self, Zeroed},
    generated as c,
    types::{WcOpcode, WcStatus},
    work::InFlight,
};

/// Completions taken by one call into the driver.
const BATCH: usize = 8;

/// Names a completion queue within this process: what events carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CqId(usize);

/// What [`CompletionQueue::poll`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Completions taken.
    pub taken: usize,
    /// When the driver had given the last of them out, on CLOCK_MONOTONIC; `None` when there were none.
    pub at: Option<Duration>,
}

/// # Safety
///
/// `cq` was made by [`Context::create_completion_queue`] and exists.
pub(super) unsafe fn id_of(cq: *const c::ibv_cq) -> CqId {
    // SAFETY: it exists.
    CqId(unsafe { (*cq).cq_context }.addr())
}

/// How one work request ended (`struct ibv_wc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the poster called it.
    pub wr_id: u64,
    /// How it ended. If not with success, only `wr_id`, `status`, `qp_num` and `vendor_err` mean anything.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// The vendor's own error code.
    pub vendor_err: u32,
    /// Bytes moved: receives, reads and atomics. On a UD queue pair with the 40 bytes in front of the payload.
    pub byte_len: u32,
    /// Immediate data, if some came (receives).
    pub imm: Option<u32>,
    /// The remote key that the sender had invalidated, if it did (receives).
    pub invalidated_rkey: Option<u32>,
    /// Our queue pair.
    pub qp_num: u32,
    /// The sender's queue pair (UD receives).
    pub src_qp: u32,
    /// `IBV_WC_*` flags as they came: 1 a GRH stands in front, 2 with immediate, 8 with invalidate.
    pub wc_flags: u32,
    /// Index of the partition key (UD receives of QP 1).
    pub pkey_index: u16,
    /// Sender's LID (UD receives).
    pub slid: u16,
    /// Service level (UD receives).
    pub sl: u8,
    /// Path bits of our LID (UD receives).
    pub dlid_path_bits: u8,
}

impl From<&c::ibv_wc> for Completion {
    fn from(seen: &c::ibv_wc) -> Self {
        let status = WcStatus(seen.status.0);
        // On a failure, and on the side that sent, the flags mean nothing.
        let received = status == WcStatus::SUCCESS && seen.opcode.0 & WcOpcode::RECV.0 != 0;
        let has = |flag: c::ibv_wc_flags| received && seen.wc_flags & flag.0 != 0;
        // SAFETY: both members of the union are a plain number.
        let (imm, rkey) = unsafe { (seen.__bindgen_anon_1.imm_data, seen.__bindgen_anon_1.invalidated_rkey) };
        Completion {
            wr_id: seen.wr_id,
            status,
            opcode: WcOpcode(seen.opcode.0),
            vendor_err: seen.vendor_err,
            byte_len: seen.byte_len,
            imm: has(c::ibv_wc_flags::IBV_WC_WITH_IMM).then(|| u32::from_be(imm)),
            invalidated_rkey: has(c::ibv_wc_flags::IBV_WC_WITH_INV).then_some(rkey),
            qp_num: seen.qp_num,
            src_qp: seen.src_qp,
            wc_flags: seen.wc_flags,
            pkey_index: seen.pkey_index,
            slid: seen.slid,
            sl: seen.sl,
            dlid_path_bits: seen.dlid_path_bits,
        }
    }
}

/// A descriptor on which completion queues announce completions.
///
/// Cheap to clone; destroyed with the last clone and the last queue made with it.
#[derive(Clone, Debug)]
pub struct CompletionChannel {
    inner: Arc<Channel>,
}

#[derive(Debug)]
struct Channel {
    pointer: NonNull<c::ibv_comp_channel>,
    context: Context,
}

// SAFETY: libibverbs may be called from any thread with the same channel; its descriptor does not change.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: every queue made with it holds an Arc of this, so all are gone.
        unsafe { (self.context.inner.symbols().ibv_destroy_comp_channel)(self.pointer.as_ptr()) };
    }
}

impl CompletionChannel {
    /// Waits until a queue that asked for it ([`CompletionQueue::request_notify`]) has a completion, and returns which;
    /// `None` when none had within `timeout`. The event is acknowledged.
    ///
    /// An announcement is spent by this: ask again, then poll, then wait, in this order, or a completion that came in
    /// between waits unannounced.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], when the device went away.
    pub fn wait(&self, timeout: Duration) -> Result<Option<CqId>, VerbsError> {
        let start = Instant::now();
        let device = &self.inner.context.inner;
        // SAFETY: the channel exists.
        let fd = unsafe { self.inner.pointer.as_ref().fd };
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let ready =
                wait(fd, libc::POLLIN, left).map_err(|seen| device.failed("poll", "completion channel", seen))?;
            if ready == 0 {
                return Ok(None);
            }
            let (mut cq, mut cq_context) = (ptr::null_mut(), ptr::null_mut());
            let channel = self.inner.pointer.as_ptr();
            // SAFETY: the channel exists; both places are ours.
            let code = unsafe { (device.symbols().ibv_get_cq_event)(channel, &raw mut cq, &raw mut cq_context) };
            if code == 0 {
                // SAFETY: an event that was taken keeps its queue until it is acknowledged, which happens here, once.
                unsafe { (device.symbols().ibv_ack_cq_events)(cq, 1) };
                return Ok(Some(CqId(cq_context.addr())));
            }
            let seen = io::Error::last_os_error();
            // Another thread may have been faster. A descriptor that is ready for something else is broken.
            let vanished = matches!(seen.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            if !vanished || ready & libc::POLLIN == 0 {
                return Err(device.failed("ibv_get_cq_event", "", seen));
            }
            if start.elapsed() >= timeout {
                return Ok(None);
            }
        }
    }
}

/// A completion queue.
///
/// Cheap to clone; destroyed with the last clone and the last queue pair made with it.
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    inner: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    pointer: NonNull<c::ibv_cq>,
    id: CqId,
    /// Work requests on their way, by queue pair: what a completion releases.
    queue_pairs: Mutex<HashMap<u32, Arc<InFlight>>>,
    _channel: Option<CompletionChannel>,
    context: Context,
}

// SAFETY: libibverbs may be called from any thread, several at once, with the same queue; the fields that we read do
// not change.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: every queue pair made with it holds an Arc of this, so all are gone.
        unsafe { (self.context.inner.symbols().ibv_destroy_cq)(self.pointer.as_ptr()) };
    }
}

impl Context {
    /// Makes a completion channel.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn create_completion_channel(&self) -> Result<CompletionChannel, VerbsError> {
        // SAFETY: the context is open.
        let pointer = unsafe { (self.inner.symbols().ibv_create_comp_channel)(self.pointer()) };
        let pointer = self.inner.object("ibv_create_comp_channel", pointer)?;
        let context = self.clone();
        let channel = Channel { pointer, context };
        // SAFETY: the channel exists.
        let fd = unsafe { pointer.as_ref().fd };
        set_nonblocking(fd).map_err(|seen| self.inner.failed("fcntl", "completion channel", seen))?;
        let inner = Arc::new(channel);
        Ok(CompletionChannel { inner })
    }

    /// Makes a completion queue with room for at least `entries`.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], [`VerbsError::Argument`] for a channel of another context or more entries than 2^31 - 1.
    pub fn create_completion_queue(
        &self,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<CompletionQueue, VerbsError> {
        // 0 is the context of nobody.
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        const CALL: &str = "ibv_create_cq";
        if channel.is_some_and(|channel| !channel.inner.context.is(self)) {
            return Err(self
                .inner
                .argument(CALL, "the completion channel belongs to another context"));
        }
        let Ok(count) = c_int::try_from(entries) else {
            let what = format!("{entries} entries: expected at most {}", c_int::MAX);
            return Err(self.inner.argument(CALL, what));
        };
        let id = CqId(NEXT.fetch_add(1, Ordering::Relaxed));
        let announce = channel.map_or(ptr::null_mut(), |channel| channel.inner.pointer.as_ptr());
        let cookie = ptr::without_provenance_mut(id.0);
        // SAFETY: the context is open and the channel is its own; the cookie is a number to the library.
        let pointer = unsafe { (self.inner.symbols().ibv_create_cq)(self.pointer(), count, cookie, announce, 0) };
        let inner = Queue {
            pointer: self.inner.object(CALL, pointer)?,
            id,
            queue_pairs: Mutex::default(),
            _channel: channel.cloned(),
            context: self.clone(),
        };
        let inner = Arc::new(inner);
        Ok(CompletionQueue { inner })
    }
}

impl CompletionQueue {
    /// What events call this queue.
    #[must_use]
    pub fn id(&self) -> CqId {
        self.inner.id
    }

    /// For how many completions there is room.
    #[must_use]
    pub fn entries(&self) -> usize {
        // SAFETY: the queue exists.
        usize::try_from(unsafe { self.inner.pointer.as_ref().cqe }).unwrap_or(0)
    }

    /// Appends the completions that are there to `completions`, in their order. It does not wait, and takes no more than
    /// the queue has room for: call again when exactly that many came.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], [`VerbsError::NotOffered`]. What was taken before the error is in `completions`.
    pub fn poll(&self, completions: &mut Vec<Completion>) -> Result<Polled, VerbsError> {
        let device = &self.inner.context.inner;
        let most = self.entries().max(1);
        let (mut taken, mut polled_at) = (0, None);
        // Filled by the driver; zeroed so that a driver which promises more than it wrote cannot show us old memory.
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

    /// Asks for one announcement on the channel at the next completion; with `solicited_only`, at the next receive
    /// whose sender asked for it, or the next that failed.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], [`VerbsError::NotOffered`].
    pub fn request_notify(&self, solicited_only: bool) -> Result<(), VerbsError> {
        let device = &self.inner.context.inner;
        // SAFETY: the queue exists.
        let code = unsafe { ffi::req_notify_cq(self.inner.pointer.as_ptr(), solicited_only) };
        let code = code.ok_or_else(|| device.not_offered("ibv_req_notify_cq"))?;
        device.check("ibv_req_notify_cq", format_args!(""), code)
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
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
