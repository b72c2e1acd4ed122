"""The responder of a queue pair (9.7.4, 9.7.5)."""

from __future__ import annotations

import struct
from typing import Optional

from verbatim_client.agent import Opcode, QpState, Slice, Status

from .wire import (
    ACCESS,
    ACK,
    ACK_SYNDROME,
    ATOMIC_ACK,
    BEGINS,
    COMPARE_SWAP,
    ENDS,
    FETCH_ADD,
    HALF,
    INVALID,
    Message,
    NAK,
    Nak,
    NotReady,
    OPERATIONAL,
    PSNS,
    Packet,
    READ,
    READ_FIRST,
    READ_LAST,
    READ_MIDDLE,
    READ_ONLY,
    RNR_NAK,
    SENDS,
    SEQUENCE,
    WRITES,
    header_bytes,
    since,
)


class Responder:
    """Executes requests and sends the responses; the responder half of a :class:`Pair`."""

    def receive_request(self, packet: Packet) -> None:
        if self.state == QpState.RTR and not self.heard:
            self.device.report("IBV_EVENT_COMM_EST", self)
        self.heard = True
        ahead = since(packet.psn, self.expected)
        if ahead == 0:
            self.nak_sent = False
            try:
                self.execute(packet)
            except NotReady:
                self.nak_sent = True
                self.acknowledge(packet.psn, RNR_NAK | self.attribute("min_rnr_timer"))
            except Nak as nak:
                self.refuse(packet.psn, nak.args[0])
        elif ahead < HALF:
            if not self.nak_sent:
                self.nak_sent = True
                wrong = self.has("nak-wrong-psn")
                self.acknowledge(packet.psn if wrong else self.expected, NAK | SEQUENCE)
        else:
            self.repeat(packet)

    def acknowledge(self, psn: int, syndrome: int = ACK_SYNDROME) -> None:
        self.transmit(Packet(ACK, psn, headers=self.aeth(syndrome)))

    def aeth(self, syndrome: int = ACK_SYNDROME) -> bytes:
        return struct.pack(">I", syndrome << 24 | self.msn)

    def count(self) -> None:
        if not self.has("msn-stands-still"):
            self.msn = (self.msn + 1) % PSNS

    def refuse(self, psn: int, code: int) -> None:
        """Sends a NAK, reports the event, and moves the queue pair to the error state."""
        if self.message is not None and self.message.receive is not None:
            receive, self.message = self.message.receive, None
            self.device.complete(self, receive.wr_id, Status.REM_INV_REQ_ERR, Opcode.RECV)
        self.acknowledge(psn, NAK | code)
        event = {ACCESS: "QP_ACCESS_ERR", OPERATIONAL: "QP_FATAL"}.get(code, "QP_REQ_ERR")
        self.device.report(f"IBV_EVENT_{event}", self)
        self.state = QpState.ERR
        self.flush()

    def execute(self, packet: Packet) -> None:
        opcode, length = packet.opcode, len(packet.payload)
        carries = opcode in SENDS or opcode in WRITES
        if len(packet.headers) != header_bytes(opcode) or not (carries or opcode in (READ, COMPARE_SWAP, FETCH_ADD)):
            raise Nak(INVALID)
        # First, Middle and Last packets must be in this order, with no other request between them.
        if self.message is None:
            in_order = opcode in BEGINS or not carries
        else:
            same = opcode in (SENDS if self.message.receive is not None else WRITES)
            in_order = same and opcode not in BEGINS
        if not in_order:
            raise Nak(INVALID)
        # First and Middle packets must be full, a Last packet must not be empty, and a READ or atomic has no payload.
        if not carries:
            fits = length == 0
        elif opcode not in ENDS:
            fits = length == self.mtu
        else:
            fits = (0 if opcode in BEGINS else 1) <= length <= self.mtu
        if not fits:
            raise Nak(INVALID)
        if opcode in SENDS:
            self.execute_send(packet)
        elif opcode in WRITES:
            self.execute_write(packet)
        elif opcode == READ:
            self.execute_read(packet)
        else:
            self.execute_atomic(packet)

    def execute_send(self, packet: Packet) -> None:
        if self.message is None:
            if not self.receives:
                raise NotReady
            receive = self.receives.pop(0)
            message = Message(receive, receive.local, 0, receive.local.length if receive.local else 0)
        else:
            message = self.message
            assert message.receive is not None
            receive = message.receive
        failed = None
        if len(packet.payload) > message.left:
            failed = (Status.LOC_LEN_ERR, INVALID)
        elif message.place is not None and not self.device.writable(message.place):
            failed = (Status.LOC_PROT_ERR, OPERATIONAL)
        if failed is not None:
            self.message = None
            self.device.complete(self, receive.wr_id, failed[0], Opcode.RECV)
            raise Nak(failed[1])
        self.store(message, packet.payload)
        ends = packet.opcode in ENDS
        self.message = None if ends else message
        self.advance(packet)
        if ends:
            self.device.complete(
                self, receive.wr_id, opcode=Opcode.RECV, byte_len=message.at, imm=packet.imm()
            )

    @staticmethod
    def store(message: Message, payload: bytes) -> None:
        if payload and message.place is not None:
            at = message.place.offset + message.at
            message.place.memory.data[at : at + len(payload)] = payload
        message.at += len(payload)
        message.left -= len(payload)

    def advance(self, packet: Packet) -> None:
        """Advances the expected PSN after a packet of a SEND or WRITE, and acknowledges the packet if requested."""
        self.expected = (packet.psn + 1) % PSNS
        if packet.opcode in ENDS:
            self.count()
        if packet.ack:
            self.acknowledge(packet.psn)

    def right(self, name: str) -> None:
        access = self.attributes["access"]
        if not getattr(access, name):
            raise Nak(INVALID)

    def remote(self, r_key: int, address: int, length: int, right: str) -> Slice:
        memory = self.device.keys.get(r_key)
        denied = Nak(INVALID if self.has("nak-wrong-code") else ACCESS)
        if memory is None or not getattr(memory.access, right):
            raise denied
        if address < memory.address or address + length > memory.address + memory.length:
            raise denied
        return Slice(memory, address - memory.address, length)

    def execute_write(self, packet: Packet) -> None:
        message = self.message
        if message is None:
            address, r_key, length = packet.reth()
            self.right("remote_write")
            if length > 1 << 31:
                raise Nak(INVALID)
            place = self.remote(r_key, address, length, "remote_write") if length else None
            message = Message(None, place, 0, length)
        ends, size = packet.opcode in ENDS, len(packet.payload)
        if size > message.left or (ends and size != message.left):
            raise Nak(INVALID)
        imm = packet.imm()
        if imm is not None and not self.receives:
            raise NotReady
        self.store(message, packet.payload)
        self.message = None if ends else message
        self.advance(packet)
        if imm is not None:
            receive = self.receives.pop(0)
            opcode = Opcode.RECV_RDMA_WITH_IMM
            self.device.complete(self, receive.wr_id, opcode=opcode, byte_len=message.at, imm=imm)

    def keep(self, packet: Packet, psns: int, what: tuple[int, ...], original: int = 0) -> None:
        """Stores a READ or atomic for the response to a duplicate."""
        self.kept.append((packet.psn, psns, packet.opcode, what, original))
        del self.kept[: -max(1, self.attribute("max_dest_rd_atomic"))]

    def execute_read(self, packet: Packet) -> None:
        address, r_key, length = packet.reth()
        self.right("remote_read")
        if length > 1 << 31 or not self.attribute("max_dest_rd_atomic"):
            raise Nak(INVALID)
        place = self.remote(r_key, address, length, "remote_read") if length else None
        psns = max(1, -(-length // self.mtu))
        self.keep(packet, psns, (address, r_key, length))
        self.expected = (packet.psn + psns) % PSNS
        self.count()
        self.respond(packet.psn, place)

    def respond(self, psn: int, place: Optional[Slice]) -> None:
        data = bytes(place.memory.data[place.offset : place.offset + place.length]) if place else b""
        parts = [data[at : at + self.mtu] for at in range(0, len(data), self.mtu)] or [b""]
        for at, part in enumerate(parts):
            first, last = at == 0, at == len(parts) - 1
            opcode = (READ_ONLY if last else READ_FIRST) if first else (READ_LAST if last else READ_MIDDLE)
            headers = b"" if opcode == READ_MIDDLE else self.aeth()
            self.transmit(Packet(opcode, (psn + at) % PSNS, headers=headers, payload=part))

    def execute_atomic(self, packet: Packet) -> None:
        address, r_key, swap_add, compare = struct.unpack(">QIQQ", packet.headers)
        self.right("remote_atomic")
        if address % 8 or not self.attribute("max_dest_rd_atomic"):
            raise Nak(INVALID)
        place = self.remote(r_key, address, 8, "remote_atomic")
        data, at = place.memory.data, place.offset
        original = struct.unpack_from("<Q", data, at)[0]
        if packet.opcode == FETCH_ADD:
            struct.pack_into("<Q", data, at, (original + swap_add) % (1 << 64))
        elif original == compare:
            struct.pack_into("<Q", data, at, swap_add)
        self.keep(packet, 1, (address, r_key), original)
        self.expected = (packet.psn + 1) % PSNS
        self.count()
        self.answer_atomic(packet.psn, original)

    def answer_atomic(self, psn: int, original: int) -> None:
        self.transmit(Packet(ATOMIC_ACK, psn, headers=self.aeth() + struct.pack(">Q", original)))

    def repeat(self, packet: Packet) -> None:
        """Responds to a duplicate (9.7.5.1.4): acknowledges SENDs and WRITEs, repeats READs and stored atomic
        results."""
        opcode, psn = packet.opcode, packet.psn
        if len(packet.headers) != header_bytes(opcode):
            return
        if opcode == 0x04 and self.has("duplicate-delivered") and self.receives:
            expected, self.expected = self.expected, psn
            self.receive_request(packet)
            self.expected = expected
        elif opcode in SENDS or opcode in WRITES:
            if packet.ack:
                self.acknowledge((self.expected - 1) % PSNS)
        elif opcode in (READ, COMPARE_SWAP, FETCH_ADD):
            for first, psns, kept, what, original in reversed(self.kept):
                if since(psn, first) < psns and kept == opcode:
                    break
            else:
                return
            if opcode == READ:
                had = since(psn, first) * self.mtu
                if packet.reth() == (what[0] + had, what[1], what[2] - had):
                    try:
                        left = what[2] - had
                        self.respond(psn, self.remote(what[1], what[0] + had, left, "remote_read") if left else None)
                    except Nak:
                        pass
            elif struct.unpack(">QI", packet.headers[:12]) == what:
                self.answer_atomic(psn, original)
