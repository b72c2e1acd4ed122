//! Unreliable datagrams (architecture 9.8.3). A datagram completes on transmission. The receiver drops a datagram that
//! finds no posted receive.

use verbatim_wire::verbs::{Operation, QpState, WcOpcode, WcStatus};
use verbatim_wire::{Deth, Layout, Opcode, Packet, Transport};

use super::defect::RcDefect;
use super::qp::{Context, Qp};
use super::transmit::immediate;

/// Size in bytes of the area for the network header, which precedes the payload in the receive buffer.
const NETWORK_HEADER: u32 = 40;

impl Qp {
    pub(crate) fn handle_datagram(&mut self, cx: &mut Context<'_>, packet: &Packet<'_>) {
        if !matches!(packet.opcode(), Opcode::UD_SEND_ONLY | Opcode::UD_SEND_ONLY_IMM)
            || packet.missing_header().is_some()
        {
            return;
        }
        if self.state == QpState::Sqe && cx.has(RcDefect::SqeStopsReceives) {
            return;
        }
        let Some(deth) = packet.deth() else {
            return;
        };
        let other = deth.q_key().0 ^ self.attributes.qkey.0;
        let has_imm = packet.imm().is_some();
        let is_tolerated = cx.has(RcDefect::QKeyIgnored)
            || has_imm && cx.has(RcDefect::QKeyIgnoredWithImmediate)
            || cx.has(RcDefect::QKeyBit31NotCompared) && other == 1 << 31;
        if other != 0 && !is_tolerated && self.old_qkey != Some(deth.q_key()) {
            let next = self.receive.posted.front();
            if let Some(receive) = next.filter(|_| cx.has(RcDefect::DroppedDatagramWritten)) {
                cx.memory.write(receive.local, NETWORK_HEADER, packet.payload());
            }
            return;
        }
        // Without a posted receive the datagram is lost.
        let Some(receive) = self.receive.posted.pop_front() else {
            return;
        };
        #[allow(clippy::cast_possible_truncation)] // a packet is shorter than 2^16 bytes
        let length = packet.payload().len() as u32 + NETWORK_HEADER;
        if length > receive.local.length {
            if !cx.has(RcDefect::DatagramReceiveVanishes) {
                self.complete_receive(cx, &receive, WcStatus::LOC_LEN_ERR);
            }
            return;
        }
        if !cx.memory.is_writable(receive.local) && !cx.has(RcDefect::DatagramStoredAnyway) {
            self.complete_receive(cx, &receive, WcStatus::LOC_PROT_ERR);
            return;
        }
        let mut header = [0; NETWORK_HEADER as usize];
        if let Some(ip) = packet.ipv6() {
            header.copy_from_slice(ip.bytes());
        } else if let Some(ip) = packet.ipv4() {
            // An IPv4 header goes into the second half of the area.
            header[20..].copy_from_slice(ip.bytes());
        } else if let Some(grh) = packet.grh() {
            header.copy_from_slice(grh.bytes());
        }
        if cx.has(RcDefect::DatagramWithoutHeader) {
            cx.memory.write(receive.local, 0, packet.payload());
        } else {
            cx.memory.write(receive.local, 0, &header);
            cx.memory.write(receive.local, NETWORK_HEADER, packet.payload());
        }
        let imm = packet.imm().map(|imm| imm.data().0);
        self.deliver(cx, &receive, WcOpcode::RECV, length, imm);
    }

    /// Sends and completes a datagram, or fails the request. Returns false if the queue is empty or the state is
    /// SQD.
    pub(crate) fn send_datagram(&mut self, cx: &mut Context<'_>) -> bool {
        if self.state == QpState::Sqd {
            return false;
        }
        let Some(request) = self.send.queue.front().map(|wqe| wqe.request) else {
            return false;
        };
        let (Some(bytes), Ok(path)) = (cx.memory.bytes(request.local), self.path(&request.address, cx.profile)) else {
            self.fail(cx, WcStatus::LOC_PROT_ERR);
            return true;
        };
        let most = if cx.has(RcDefect::DatagramTailLost) {
            512
        } else {
            usize::MAX
        };
        let with_imm = request.operation == Operation::SendImm;
        let opcode = if with_imm {
            Opcode::UD_SEND_ONLY_IMM
        } else {
            Opcode::UD_SEND_ONLY
        };
        // If the high bit of the request's Q_Key is set, the packet carries the queue pair's Q_Key.
        let q_key = if request.remote_qkey.0 >> 31 == 1 {
            self.attributes.qkey
        } else {
            request.remote_qkey
        };
        let transport = Transport {
            bth: self
                .bth()
                .with_opcode(opcode)
                .with_dest_qp(request.remote_qpn)
                .with_solicited_event(request.solicited && !cx.has(RcDefect::SolicitedEventIgnored))
                .with_psn(self.send.next_psn),
            deth: Some(Deth::default().with_q_key(q_key).with_src_qp(self.qpn)),
            imm: with_imm.then(|| immediate(cx, request.imm)),
            payload: bytes[..most.min(bytes.len())].to_vec(),
            ..Transport::default()
        };
        if !cx.has(RcDefect::DatagramPsnConstant) {
            self.send.next_psn = self.send.next_psn.next();
        }
        cx.port.send(cx.now + cx.profile.latency, path, transport);
        self.send.pop();
        self.complete(cx, &request, WcStatus::SUCCESS, 0);
        if cx.has(RcDefect::DatagramCompletesTwice) {
            self.complete(cx, &request, WcStatus::SUCCESS, 0);
        }
        true
    }
}
