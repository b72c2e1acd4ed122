"""The requester of a queue pair (9.7.3, 9.7.5.2.8, 9.7.6)."""

from __future__ import annotations

import queue
import struct
from typing import Optional

from verbatim_client.agent import Operation, QpState, Service, Status

from .wire import (
    ACCESS,
    ACK,
    ATOMIC_ACK,
    COMPARE_SWAP,
    FETCH_ADD,
    HALF,
    INVALID,
    LATE,
    NAK,
    OPERATIONAL,
    PSNS,
    Packet,
    READ,
    READ_FIRST,
    READ_LAST,
    READ_MIDDLE,
    READ_ONLY,
    RNR_10US,
    SEQUENCE,
    since,
)


class Requester:
    """Sends requests and handles responses; the requester half of a :class:`Pair`."""

    def pump(self) -> None:
        """Sends all packets that may be sent now."""
        if self.service == Service.UD:
            self.send_datagrams()
        while self.service == Service.RC and self.state in (QpState.RTS, QpState.SQD) and self.rnr_until is None:
            if self.cursor == self.next_psn and not self.begin():
                break
            if self.cursor == self.next_psn:
                continue
            if self.device.window and since(self.cursor, self.oldest()) >= self.device.window:
                break
            self.send_packet()
        self.arm()
        if self.state == QpState.SQD and not self.drained and not any(wqe.first is not None for wqe in self.sends):
            self.drained = True
            self.device.report("IBV_EVENT_SQ_DRAINED", self)

    def begin(self) -> bool:
        """Assigns PSNs to the next request, if a request may begin now; returns whether one began."""
        index = next((at for at, wqe in enumerate(self.sends) if wqe.first is None), None)
        if index is None or self.state == QpState.SQD or (index and self.device.window):
            return False
        wqe, request = self.sends[index], self.sends[index].request
        pending = sum(before.waits for before in self.sends[:index])
        limit = self.attribute("max_rd_atomic")
        if (request.fence and pending) or (wqe.waits and 0 < limit <= pending):
            return False
        fault = None
        if wqe.waits and not limit:
            fault = Status.LOC_QP_OP_ERR
        elif wqe.waits and request.local is not None and not self.device.writable(request.local):
            fault = Status.LOC_PROT_ERR
        elif request.local is not None and self.device.keys.get(request.local.memory.r_key) is not request.local.memory:
            fault = Status.LOC_PROT_ERR
        if fault is not None:
            # Earlier requests complete first, so that completions stay in order.
            if index == 0:
                self.fail(fault)
            return False
        length = request.local.length if request.local else 0
        wqe.first = self.next_psn
        one = request.operation in (Operation.COMPARE_SWAP, Operation.FETCH_ADD)
        wqe.psns = 1 if one else max(1, -(-length // self.mtu))
        self.next_psn = (self.next_psn + wqe.psns) % PSNS
        return True

    def send_packet(self) -> None:
        wqe = next(wqe for wqe in self.sends if wqe.first is not None and since(self.cursor, wqe.first) < wqe.psns)
        request, number = wqe.request, since(self.cursor, wqe.first or 0)
        length = request.local.length if request.local else 0
        if wqe.waits:
            wqe.starts.add(number)
            if request.operation == Operation.READ:
                had = number * self.mtu
                headers = struct.pack(">QII", request.remote_address + had, request.r_key, length - had)
                packet = Packet(READ, self.cursor, ack=True, headers=headers)
            else:
                swap = request.operation == Operation.COMPARE_SWAP
                compare = request.compare if swap else 0
                headers = struct.pack(">QIQQ", request.remote_address, request.r_key, request.swap_add, compare)
                packet = Packet(COMPARE_SWAP if swap else FETCH_ADD, self.cursor, ack=True, headers=headers)
            self.cursor = ((wqe.first or 0) + wqe.psns) % PSNS
        else:
            first, last = number == 0, number == wqe.psns - 1
            imm = last and request.operation in (Operation.SEND_IMM, Operation.WRITE_IMM)
            write = request.operation in (Operation.WRITE, Operation.WRITE_IMM)
            opcode = (5 if imm else 4) if first and last else 0 if first else (3 if imm else 2) if last else 1
            headers = b""
            if write:
                opcode += 6
                headers = struct.pack(">QII", request.remote_address, request.r_key, length) if first else b""
            if imm:
                headers += struct.pack(">I", request.imm)
            payload = b""
            if request.local is not None:
                at = request.local.offset + number * self.mtu
                end = min(at + self.mtu, request.local.offset + length)
                payload = bytes(request.local.memory.data[at:end])
            # A plain WRITE completes no receive, so it has no solicited event (9.2.3).
            solicited = request.solicited and last and request.operation != Operation.WRITE
            ack = last or bool(self.device.window)
            packet = Packet(opcode, self.cursor, ack=ack, solicited=solicited, headers=headers, payload=payload)
            self.cursor = (self.cursor + 1) % PSNS
        self.transmit(packet)

    def oldest(self) -> int:
        front = self.sends[0] if self.sends else None
        return (front.first + front.acked) % PSNS if front and front.first is not None else self.next_psn

    def receive_response(self, packet: Packet) -> None:
        outstanding = since(self.next_psn, self.oldest())
        if since(packet.psn, self.oldest()) >= outstanding:
            return  # A response to a PSN that was never sent or is complete.
        if packet.opcode == ACK:
            syndrome, _ = packet.aeth()
            if syndrome < 0x20:
                if not self.settle((packet.psn + 1) % PSNS):
                    self.go_back(implied=True)
                else:
                    self.pump()
            elif syndrome < 0x40:
                if self.reaches(packet.psn):
                    self.not_ready(syndrome & 0x1F)
            elif NAK <= syndrome <= NAK | OPERATIONAL and self.reaches(packet.psn):
                if syndrome == NAK | SEQUENCE:
                    self.go_back()
                else:
                    errors = {INVALID: Status.REM_INV_REQ_ERR, ACCESS: Status.REM_ACCESS_ERR}
                    self.fail(errors.get(syndrome & 0x1F, Status.REM_OP_ERR))
        elif not self.settle(packet.psn):
            self.go_back(implied=True)
        elif packet.opcode == ATOMIC_ACK:
            self.receive_atomic(packet)
        else:
            self.receive_read(packet)

    def settle(self, end: int) -> bool:
        """Completes SENDs and WRITEs before the PSN ``end``. Returns False if a READ or atomic before it lacks its
        response."""
        while self.sends and self.sends[0].first is not None:
            front = self.sends[0]
            left = since(end, (front.first or 0) + front.acked)
            if left == 0 or left > HALF:
                break
            if front.waits:
                return False
            front.acked += min(left, front.psns - front.acked)
            self.progress()
            if front.acked < front.psns:
                break
            self.sends.pop(0)
            self.complete(front.request)
        if since(self.cursor, self.oldest()) > HALF:
            self.cursor = self.oldest()
        return True

    def reaches(self, psn: int) -> bool:
        """Acknowledges all requests before a NAK's PSN; returns whether the NAK is now for the oldest request."""
        if self.settle(psn):
            return True
        front = self.sends[0]
        if front.first is not None and since(psn, front.first) < front.psns:
            return True
        self.go_back(implied=True)
        return False

    def receive_read(self, packet: Packet) -> None:
        front = self.sends[0]
        length = front.request.local.length if front.request.local else 0
        at, last = front.acked, front.acked == front.psns - 1
        continues = any(start < at for start in front.starts)
        fits = {
            READ_FIRST: at in front.starts and not last,
            READ_MIDDLE: continues and not last,
            READ_LAST: continues and last,
            READ_ONLY: at in front.starts and last,
        }[packet.opcode]
        if packet.headers and packet.aeth()[0] >= 0x20:
            return
        expected = min(self.mtu, length - at * self.mtu)
        if front.request.operation != Operation.READ or not fits or len(packet.payload) != expected:
            wrong_length = front.request.operation == Operation.READ and fits
            self.fail(Status.LOC_LEN_ERR if wrong_length else Status.BAD_RESP_ERR)
            return
        if front.request.local is not None:
            to = front.request.local.offset + at * self.mtu
            front.request.local.memory.data[to : to + expected] = packet.payload
        front.acked += 1
        self.progress()
        if last:
            self.sends.pop(0)
            self.complete(front.request, byte_len=length)
        if since(self.cursor, self.oldest()) > HALF:
            self.cursor = self.oldest()
        self.pump()

    def receive_atomic(self, packet: Packet) -> None:
        front = self.sends[0]
        if packet.aeth()[0] >= 0x20:
            return
        if front.request.operation not in (Operation.COMPARE_SWAP, Operation.FETCH_ADD):
            self.fail(Status.BAD_RESP_ERR)
            return
        local = front.request.local
        if local is not None:
            original = struct.unpack(">Q", packet.headers[4:])[0]
            struct.pack_into("<Q", local.memory.data, local.offset, original)
        self.sends.pop(0)
        self.progress()
        self.complete(front.request, byte_len=8)
        if since(self.cursor, self.oldest()) > HALF:
            self.cursor = self.oldest()
        self.pump()

    def progress(self) -> None:
        """Restarts both retry counters and the timer after an acknowledgement."""
        self.retries = self.rnr_retries = 0
        self.implied_nak = False
        self.rnr_until = self.timer = None
        self.arm()

    def arm(self) -> None:
        code = self.attribute("timeout")
        if not code or self.rnr_until is not None or self.cursor == self.oldest() or self.state == QpState.ERR:
            self.timer = None
        elif self.timer is None:
            # The architecture allows between one and four times the timeout (C9-142).
            self.timer = self.device.clock() + 2 * 4.096e-6 * (1 << code)

    def spend_retry(self) -> bool:
        if self.retries >= self.attribute("retry_cnt"):
            self.fail(Status.RETRY_EXC_ERR)
            return False
        self.retries += 1
        return True

    def go_back(self, implied: bool = False) -> None:
        """Retries from the oldest PSN: after a sequence NAK, a timeout, or a response that skips a missing response."""
        if implied:
            if self.implied_nak:
                return
            self.implied_nak = True
        if self.spend_retry():
            self.cursor = self.oldest()
            self.timer = None
            self.pump()

    def not_ready(self, code: int) -> None:
        """Handles an RNR NAK: waits, or gives up after ``rnr_retry`` retries. A count of 7 is unlimited."""
        count = self.attribute("rnr_retry")
        if count < 7 and self.rnr_retries >= count:
            self.fail(Status.RNR_RETRY_EXC_ERR)
            return
        self.rnr_retries += 1
        self.cursor = self.oldest()
        interval = 0.0 if self.has("no-rnr-timer") else RNR_10US[code] * 10e-6 + LATE
        self.timer, self.rnr_until = None, self.device.clock() + interval
        self.arm()

    def fail(self, status: Status) -> None:
        """Fails the oldest request, and moves the queue pair to the error state."""
        self.complete(self.sends.pop(0).request, status)
        self.state = QpState.ERR
        self.flush()

    def due(self) -> Optional[float]:
        return min((at for at in (self.timer, self.rnr_until) if at is not None), default=None)

    def tick(self, now: float) -> None:
        if self.timer is not None and self.timer <= now:
            self.timer = None
            self.implied_nak = False
            self.go_back()
        if self.rnr_until is not None and self.rnr_until <= now:
            self.rnr_until = None
            self.pump()
