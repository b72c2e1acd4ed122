//! A queue pair: its state, its two queues, and the path to the peer.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_wire::verbs::{
    Access, AddressVector, EventKind, Operation, QpState, QpStatus, Service, WcOpcode, WcStatus,
};
use verbatim_wire::{AckTimeout, Bth, Lid, Mtu, PKey, Psn, QKey, Qpn, RnrTimer};

use super::completion::{AsyncEvent, Completion, opcode};
use super::defect::{RcDefect, RcFaults};
use super::frame::{Address, Path};
use super::memory::Regions;
use super::port::Port;
use super::profile::{AdapterProfile, NativePort};
use super::receive_queue::ReceiveQueue;
use super::send_queue::SendQueue;
use super::verbs::{QpHandle, ReceiveRequest, Refusal, SendRequest, Slice};

/// Maximum length of a message: 2^31 bytes (architecture 9.2).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// The parts of the adapter that a queue pair uses.
pub(crate) struct Context<'a> {
    pub(crate) now: Duration,
    pub(crate) profile: &'a AdapterProfile,
    pub(crate) faults: &'a RcFaults,
    pub(crate) port: &'a mut Port,
    pub(crate) memory: &'a mut Regions,
    pub(crate) told: &'a mut HostQueue,
}

impl Context<'_> {
    pub(crate) fn has(&self, defect: RcDefect) -> bool {
        self.faults.has(defect)
    }

    pub(crate) fn report(&mut self, qp: QpHandle, kind: EventKind) {
        let at = self.now;
        self.told.events.push_back(AsyncEvent { kind, qp, at });
    }
}

/// Completions and events that the host has not fetched.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostQueue {
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) events: VecDeque<AsyncEvent>,
    /// The location of the next WRITE packet of any queue pair. Only a defective adapter uses it.
    pub(crate) next_write: Option<super::memory::Place>,
    /// The PSNs and results of the atomics of all queue pairs. Only a defective adapter uses them.
    pub(crate) originals: Vec<(Psn, u64)>,
    /// Whether an ACK arrived on any queue pair. Only a defective adapter uses this field.
    pub(crate) acknowledged: bool,
}

/// The attributes in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) p_key_index: u16,
    /// The P_Key at the index in the P_Key table.
    pub(crate) p_key: PKey,
    pub(crate) access: Access,
    pub(crate) path_mtu: Mtu,
    pub(crate) dest_qpn: Qpn,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) min_rnr_timer: RnrTimer,
    pub(crate) timeout: AckTimeout,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) qkey: QKey,
    pub(crate) path: Option<Path>,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            p_key_index: 0,
            p_key: PKey(0),
            access: Access::default(),
            path_mtu: Mtu::B256,
            dest_qpn: Qpn(0),
            max_dest_rd_atomic: 0,
            max_rd_atomic: 0,
            min_rnr_timer: RnrTimer(0),
            timeout: AckTimeout::OFF,
            retry_cnt: 0,
            rnr_retry: 0,
            qkey: QKey(0),
            path: None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Qp {
    pub(crate) handle: QpHandle,
    pub(crate) qpn: Qpn,
    pub(crate) service: Service,
    pub(crate) state: QpState,
    pub(crate) attributes: Attributes,
    pub(crate) send: SendQueue,
    pub(crate) receive: ReceiveQueue,
    /// Whether the queue pair has refused a request, and the Q_Key before the current one. Only defective adapters use
    /// these two fields.
    pub(crate) refused: bool,
    pub(crate) old_qkey: Option<QKey>,
    send_depth: usize,
    receive_depth: usize,
}

impl Qp {
    pub(crate) fn new(handle: QpHandle, qpn: Qpn, service: Service, send_depth: u32, receive_depth: u32) -> Self {
        Self {
            handle,
            qpn,
            service,
            state: QpState::Reset,
            attributes: Attributes::default(),
            send: SendQueue::default(),
            receive: ReceiveQueue::default(),
            refused: false,
            old_qkey: None,
            send_depth: send_depth as usize,
            receive_depth: receive_depth as usize,
        }
    }

    pub(crate) fn status(&self) -> QpStatus {
        QpStatus {
            state: self.state,
            sq_psn: self.send.next_psn,
            rq_psn: self.receive.expected,
        }
    }

    /// Returns the path MTU in bytes, the payload of a full packet.
    pub(crate) fn pmtu(&self) -> u32 {
        // `modify` has checked the code.
        self.attributes.path_mtu.bytes().unwrap_or(256)
    }

    /// Returns the path of an address vector.
    pub(crate) fn path(&self, address: &AddressVector, profile: &AdapterProfile) -> Result<Path, Refusal> {
        if let Some(port) = &profile.infiniband {
            return Self::native_path(address, port);
        }
        let Some(dgid) = address.dgid else {
            return Err(Refusal::invalid(
                "expected an address vector with a DGID, since every RoCE packet carries one; name the other side's GID",
            ));
        };
        let Some(&from) = profile.ips.get(usize::from(address.sgid_index)) else {
            return Err(Refusal::invalid(format!(
                "expected an sgid_index below {}, the size of the GID table, not {}",
                profile.ips.len(),
                address.sgid_index
            )));
        };
        let to = dgid.ip();
        if from.is_ipv4() != to.is_ipv4() {
            return Err(Refusal::invalid(format!(
                "expected a DGID of the same IP version as the own GID {from}, not {to}; choose another sgid_index"
            )));
        }
        if to.is_unspecified() || to.is_multicast() {
            return Err(Refusal::invalid(format!("expected the GID of one port, not {to}")));
        }
        let flow = if profile.choices.udp_port_by_qp { self.qpn.0 } else { 0 };
        Ok(Path {
            from: Address::Ip(from),
            to: Address::Ip(to),
            sl: 0,
            gids: None,
            hop_limit: address.hop_limit,
            traffic_class: address.traffic_class,
            flow_label: address.flow_label & 0x000F_FFFF,
            #[allow(clippy::cast_possible_truncation)] // 14 bits
            udp_port: 0xC000 | ((flow ^ flow >> 14) & 0x3FFF) as u16,
        })
    }

    fn native_path(address: &AddressVector, port: &NativePort) -> Result<Path, Refusal> {
        let dlid = Lid(address.dlid);
        if !dlid.is_unicast() {
            return Err(Refusal::invalid(format!(
                "expected the unicast LID of the other port as dlid, not {dlid}"
            )));
        }
        if address.sl > 15 || address.dgid.is_some() && address.sgid_index > 0 {
            return Err(Refusal::invalid(format!(
                "expected an SL below 16 and sgid_index 0, the only GID, not {} and {}",
                address.sl, address.sgid_index
            )));
        }
        let gids = address.dgid.map(|dgid| (port.gid.0.into(), dgid.0.into()));
        Ok(Path {
            from: Address::Lid(port.lid),
            to: Address::Lid(dlid),
            sl: address.sl,
            gids,
            hop_limit: address.hop_limit,
            traffic_class: address.traffic_class,
            flow_label: address.flow_label & 0x000F_FFFF,
            udp_port: 0,
        })
    }

    /// Returns the BTH of a packet to the peer, without opcode and PSN.
    pub(crate) fn bth(&self) -> Bth {
        Bth::default()
            .with_migrated(true)
            .with_p_key(self.attributes.p_key)
            .with_dest_qp(self.attributes.dest_qpn)
    }

    /// Returns the time of the next timer event.
    pub(crate) fn poll_at(&self) -> Option<Duration> {
        [self.send.timer, self.send.rnr_until, self.receive.ack_due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Performs the timer events whose time has come.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        if self.receive.ack_due.is_some_and(|at| at <= cx.now) {
            self.send_pending_ack(cx);
        }
        if self.send.timer.is_some_and(|at| at <= cx.now) {
            self.on_timeout(cx);
        }
        if self.send.rnr_until.is_some_and(|at| at <= cx.now) {
            self.send.rnr_until = None;
            if self.state != QpState::Sqd || !cx.has(RcDefect::RnrRetryMissingInSqd) {
                self.pump(cx);
            }
        }
    }

    pub(crate) fn post_send(&mut self, cx: &mut Context<'_>, request: &SendRequest) -> Result<(), Refusal> {
        self.check_send(cx, request)?;
        self.send.post(*request);
        if cx.has(RcDefect::PostRestartsTimer) {
            self.send.timer = None;
        }
        match self.state {
            QpState::Err => self.flush(cx),
            QpState::Sqe => self.flush_sends(cx),
            _ => self.pump(cx),
        }
        Ok(())
    }

    fn check_send(&self, cx: &Context<'_>, request: &SendRequest) -> Result<(), Refusal> {
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(Refusal::invalid(format!(
                "expected a queue pair in RTS, and this one is in {}; modify it first",
                self.state
            )));
        }
        if self.send.len() + usize::from(cx.has(RcDefect::SendQueueOneShort)) >= self.send_depth {
            return Err(Refusal::full(format!(
                "expected at most {} send requests in the queue; fetch completions first",
                self.send_depth
            )));
        }
        if self.service == Service::Ud && !matches!(request.operation, Operation::Send | Operation::SendImm) {
            return Err(Refusal::invalid(format!(
                "expected a SEND on an unreliable datagram queue pair, not {:?}",
                request.operation
            )));
        }
        if request.operation.is_atomic() && !cx.profile.atomics {
            return Err(Refusal::invalid("expected no atomic: this adapter has no atomics"));
        }
        if request.operation == Operation::SendInvalidate && !cx.profile.invalidate {
            return Err(Refusal::invalid(
                "expected no SEND with Invalidate: this adapter does not have it",
            ));
        }
        if request.operation.is_atomic() && request.local.length < 8 {
            return Err(Refusal::invalid(format!(
                "expected 8 bytes of local memory for the original value of an atomic, not {}",
                request.local.length
            )));
        }
        if request.local.length > MAX_MESSAGE {
            return Err(Refusal::invalid("expected a message of at most 2^31 bytes"));
        }
        if self.service == Service::Ud {
            self.path(&request.address, cx.profile)?;
            let most = cx.profile.mtu.bytes().unwrap_or(256);
            if request.local.length > most && !cx.has(RcDefect::DatagramBeyondMtu) {
                return Err(Refusal::invalid(format!(
                    "expected a datagram of at most {most} bytes, the MTU, not {}",
                    request.local.length
                )));
            }
        }
        cx.memory.check(request.local)
    }

    pub(crate) fn post_receive(&mut self, cx: &mut Context<'_>, request: &ReceiveRequest) -> Result<(), Refusal> {
        if self.state == QpState::Reset {
            return Err(Refusal::invalid(
                "expected a queue pair in INIT or beyond, and this one is in RESET; modify it first",
            ));
        }
        if self.receive.posted.len() >= self.receive_depth {
            return Err(Refusal::full(format!(
                "expected at most {} receive requests in the queue; fetch completions first",
                self.receive_depth
            )));
        }
        cx.memory.check(request.local)?;
        self.receive.posted.push_back(*request);
        if self.receive.rnr_open && cx.has(RcDefect::ReceiveRearmsGapNak) {
            self.receive.nak_sent = false;
        }
        if self.state == QpState::Err && !cx.has(RcDefect::LateReceiveKept) {
            self.flush(cx);
        }
        Ok(())
    }

    /// Enters the error state: flushes all requests, the send queue first, each queue in order.
    pub(crate) fn enter_error(&mut self, cx: &mut Context<'_>) {
        self.state = QpState::Err;
        self.flush(cx);
    }

    fn flush(&mut self, cx: &mut Context<'_>) {
        self.flush_sends(cx);
        self.flush_receives(cx);
    }

    pub(crate) fn flush_receives(&mut self, cx: &mut Context<'_>) {
        self.receive.stop();
        if let super::receive_queue::Message::Send { request, .. } = self.receive.message
            && cx.has(RcDefect::HalfReceiveFlushedLast)
        {
            self.receive.message = super::receive_queue::Message::None;
            self.receive.posted.push_back(request);
        }
        while let Some(request) = self.receive.take() {
            self.complete_receive(cx, &request, WcStatus::WR_FLUSH_ERR);
        }
    }

    fn flush_sends(&mut self, cx: &mut Context<'_>) {
        let mut flushed = self.send.stop();
        if cx.has(RcDefect::FlushMissing) {
            return;
        }
        if cx.has(RcDefect::FlushInReverse) {
            flushed.reverse();
        }
        let status = if cx.has(RcDefect::FlushWrongStatus) {
            WcStatus::GENERAL_ERR
        } else {
            WcStatus::WR_FLUSH_ERR
        };
        for request in flushed {
            self.complete(cx, &request, status, 0);
        }
    }

    /// Completes a send request. Reports the completion if the request is signaled or has failed.
    pub(crate) fn complete(&mut self, cx: &mut Context<'_>, request: &SendRequest, status: WcStatus, byte_len: u32) {
        if request.operation.is_read_or_atomic() {
            spoil(cx, request.local, status);
        }
        if request.signaled || status != WcStatus::SUCCESS {
            let wr_id = told_wr_id(cx, request.wr_id, status);
            cx.told.completions.push_back(Completion {
                qp: self.handle,
                wr_id,
                status,
                opcode: opcode(request.operation),
                byte_len,
                imm: None,
                at: cx.now,
            });
        }
    }

    /// Completes a receive request that failed or was flushed.
    pub(crate) fn complete_receive(&self, cx: &mut Context<'_>, request: &ReceiveRequest, status: WcStatus) {
        spoil(cx, request.local, status);
        let wr_id = told_wr_id(cx, request.wr_id, status);
        cx.told.completions.push_back(Completion {
            qp: self.handle,
            wr_id,
            status,
            opcode: WcOpcode::RECV,
            byte_len: 0,
            imm: None,
            at: cx.now,
        });
    }

    /// Restores the state after creation. Discards pending requests without a completion.
    pub(crate) fn reset(&mut self) {
        self.state = QpState::Reset;
        self.attributes = Attributes::default();
        self.send = SendQueue::default();
        self.receive = ReceiveQueue::default();
        self.old_qkey = None;
    }

    pub(crate) fn start_sending(&mut self, psn: Psn) {
        self.send.start(psn);
    }
}

/// Returns the wr_id for the completion.
fn told_wr_id(cx: &Context<'_>, wr_id: u64, status: WcStatus) -> u64 {
    if status == WcStatus::WR_FLUSH_ERR && cx.has(RcDefect::FlushedWrIdLow32Bits) {
        wr_id & 0xFFFF_FFFF
    } else {
        wr_id
    }
}

/// Overwrites the memory of a failed request, if the profile chooses this. A flushed request keeps its memory.
fn spoil(cx: &mut Context<'_>, local: Slice, status: WcStatus) {
    let has_failed = !matches!(status, WcStatus::SUCCESS | WcStatus::WR_FLUSH_ERR);
    if has_failed && cx.profile.choices.spoils_failed && cx.memory.is_writable(local) {
        cx.memory.write(local, 0, &vec![0xA5; local.length as usize]);
    }
}
