#!/usr/bin/python3
"""A RoCE v2 device in Python, behind an agent; its link is two unix datagram sockets, a frame a datagram.

    soft_roce.py --listen unix:/tmp/soft/agent.sock --socket /tmp/soft/device.sock --peer /tmp/soft/tester.sock

It shows how a device of your own is put under test, and that the tests see what is wrong with one: ``--deviation NAME``
breaks one rule. It has RC on IPv4 with SEND, WRITE, READ and atomics, and UD; no SEND with Invalidate, no congestion
control, no window.
"""

from __future__ import annotations

import argparse
import ipaddress
import queue
import socket
import struct
import threading
import time
import zlib
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from verbatim_client.agent import (
    Access,
    AddressVector,
    Capabilities,
    Device,
    DeviceInfo,
    Gid,
    Memory,
    Opcode,
    Operation,
    QpAttributes,
    QpState,
    QpStatus,
    QueuePair,
    ReceiveRequest,
    Refused,
    SendRequest,
    Service,
    Slice,
    Status,
    serve,
)

DEVIATIONS = {
    "nak-wrong-psn": "the NAK of a gap has the PSN that came, not the one that is missing",
    "msn-stands-still": "the MSN of acknowledgements never advances",
    "no-rnr-timer": "after an RNR NAK a request is sent again at once",
    "duplicate-delivered": "a SEND that comes again is delivered again",
    "icrc-ignored": "a packet with a wrong ICRC is taken",
    "flush-forgotten": "a queue pair in the error state completes nothing that was posted",
}

# Opcodes of a reliable connection (9.2).
SENDS = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05}
WRITES = {0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B}
BEGINS = {0x00, 0x04, 0x05, 0x06, 0x0A, 0x0B}
ENDS = {0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0A, 0x0B}
WITH_IMM = {0x03, 0x05, 0x09, 0x0B, 0x65}
READ, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = 0x0C, 0x0D, 0x0E, 0x0F, 0x10
ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD = 0x11, 0x12, 0x13, 0x14
DATAGRAM, DATAGRAM_IMM = 0x64, 0x65

# Syndromes of an AETH (9.7.5): NAK codes, and the ACK without a credit count.
ACK_SYNDROME, RNR_NAK, NAK = 0x1F, 0x20, 0x60
SEQUENCE, INVALID, ACCESS, OPERATIONAL = 0, 1, 2, 3

PSNS = 1 << 24
HALF = PSNS // 2
#: How much later than asked a request is sent again: never earlier, and late enough that a tester at the end of a slow path
#: can tell. Kernels are late by a tick or two as well.
LATE = 0.05
#: RNR NAK timer codes in units of 10 us (9.7.5.2.8).
RNR_10US = [65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072]
RNR_10US += [4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152]


def since(psn: int, earlier: int) -> int:
    return (psn - earlier) % PSNS


def icrc(packet: bytes) -> bytes:
    """Of an IPv4 packet without its ICRC: what changes on the way counts as ones (annex A17)."""
    masked = bytearray(b"\xff" * 8 + packet)
    for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 8 + 26, 8 + 27, 8 + 32):
        masked[at] = 0xFF
    return struct.pack("<I", zlib.crc32(masked))


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@dataclass
class Packet:
    """A packet, without its headers below."""

    opcode: int
    psn: int
    dest_qpn: int = 0
    ack: bool = False
    solicited: bool = False
    p_key: int = 0xFFFF
    headers: bytes = b""
    payload: bytes = b""
    source: str = ""
    ip: bytes = b""

    def reth(self) -> tuple[int, int, int]:
        return struct.unpack(">QII", self.headers[:16])

    def imm(self) -> Optional[int]:
        return struct.unpack(">I", self.headers[-4:])[0] if self.opcode in WITH_IMM else None

    def aeth(self) -> tuple[int, int]:
        word = struct.unpack(">I", self.headers[:4])[0]
        return word >> 24, word & 0xFFFFFF


def header_bytes(opcode: int) -> int:
    reth = 16 if opcode in (0x06, 0x0A, 0x0B, READ) else 0
    aeth = 4 if opcode in (READ_FIRST, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK) else 0
    atomic = 28 if opcode in (COMPARE_SWAP, FETCH_ADD) else 8 if opcode == ATOMIC_ACK else 0
    deth = 8 if opcode in (DATAGRAM, DATAGRAM_IMM) else 0
    return reth + aeth + atomic + deth + (4 if opcode in WITH_IMM or opcode in (0x16, 0x17) else 0)


class Nak(Exception):
    """A request cannot be done: the code."""


class NotReady(Exception):
    """A request wants a receive, and none is posted."""


@dataclass
class Wqe:
    """A send request: its PSNs, and how many of them are acknowledged or, of a READ, answered."""

    request: SendRequest
    first: Optional[int] = None
    psns: int = 0
    acked: int = 0
    #: Responses at which a READ request began.
    starts: set[int] = field(default_factory=set)

    @property
    def waits(self) -> bool:
        """Whether it ends with data that comes back, and not with an ACK."""
        return self.request.operation in (Operation.READ, Operation.COMPARE_SWAP, Operation.FETCH_ADD)


@dataclass
class Message:
    """The SEND or WRITE that is arriving."""

    receive: Optional[ReceiveRequest]
    place: Optional[Slice]
    at: int
    left: int


# Attributes that a step of a queue pair needs, and those that it takes beside them (11.2.5.2).
LATER = {"access", "min_rnr_timer"}
SQD = {"pkey_index", "address", "max_dest_rd_atomic", "max_rd_atomic", "timeout", "retry_cnt", "rnr_retry"} | LATER
STEPS: dict[tuple[QpState, QpState], tuple[set[str], set[str]]] = {
    (QpState.RESET, QpState.INIT): ({"pkey_index", "port", "access"}, set()),
    (QpState.INIT, QpState.INIT): (set(), {"pkey_index", "port", "access"}),
    (QpState.INIT, QpState.RTR): (
        {"address", "path_mtu", "dest_qpn", "rq_psn", "max_dest_rd_atomic", "min_rnr_timer"},
        {"access", "pkey_index"},
    ),
    (QpState.RTR, QpState.RTS): ({"sq_psn", "timeout", "retry_cnt", "rnr_retry", "max_rd_atomic"}, LATER),
    (QpState.RTS, QpState.RTS): (set(), LATER),
    (QpState.RTS, QpState.SQD): (set(), set()),
    (QpState.SQD, QpState.RTS): (set(), LATER),
    (QpState.SQD, QpState.SQD): (set(), SQD),
}
DATAGRAM_STEPS: dict[tuple[QpState, QpState], tuple[set[str], set[str]]] = {
    (QpState.RESET, QpState.INIT): ({"pkey_index", "port", "qkey"}, set()),
    (QpState.INIT, QpState.INIT): (set(), {"pkey_index", "port", "qkey"}),
    (QpState.INIT, QpState.RTR): (set(), {"pkey_index", "qkey"}),
    (QpState.RTR, QpState.RTS): ({"sq_psn"}, {"qkey"}),
    (QpState.RTS, QpState.RTS): (set(), {"qkey"}),
    (QpState.RTS, QpState.SQD): (set(), set()),
    (QpState.SQD, QpState.RTS): (set(), {"qkey"}),
    (QpState.SQD, QpState.SQD): (set(), {"pkey_index", "qkey"}),
    (QpState.SQE, QpState.RTS): (set(), {"qkey"}),
}


class Pair(QueuePair):
    """A queue pair: requester and responder."""

    def __init__(self, device: "SoftRoce", qpn: int, service: Service, send_depth: int, receive_depth: int) -> None:
        super().__init__(qpn)
        self.device = device
        self.service = service
        self.depths = (send_depth, receive_depth)
        self.reset()

    def reset(self) -> None:
        self.state = QpState.RESET
        self.attributes: dict[str, object] = {}
        # The requester.
        self.sends: list[Wqe] = []
        self.next_psn = 0  # of the next request
        self.cursor = 0  # of the next packet; behind next_psn in a retry
        self.retries = self.rnr_retries = 0
        self.timer: Optional[float] = None
        self.rnr_until: Optional[float] = None
        self.implied_nak = self.drained = False
        # The responder.
        self.receives: list[ReceiveRequest] = []
        self.expected = self.msn = 0
        self.message: Optional[Message] = None
        self.nak_sent = self.heard = False
        self.kept: list[tuple[int, int, int, tuple[int, ...], int]] = []

    def attribute(self, name: str) -> int:
        value = self.attributes.get(name, 0)
        assert isinstance(value, int)
        return value

    @property
    def mtu(self) -> int:
        return 128 << self.attribute("path_mtu")

    @property
    def address(self) -> AddressVector:
        address = self.attributes["address"]
        assert isinstance(address, AddressVector)
        return address

    def has(self, deviation: str) -> bool:
        return deviation in self.device.deviations

    def modify(self, to: QpState, attributes: QpAttributes) -> None:
        named = attributes.named()
        if to in (QpState.RESET, QpState.ERR):
            needed: set[str] = set()
            taken: set[str] = set()
        elif (self.state, to) in (steps := STEPS if self.service == Service.RC else DATAGRAM_STEPS):
            needed, taken = steps[self.state, to]
        else:
            raise Refused(f"there is no step from {self.state.name} to {to.name}", 22)
        if needed - named.keys():
            raise Refused(f"{self.state.name} to {to.name} needs {', '.join(sorted(needed - named.keys()))} too", 22)
        if named.keys() - needed - taken:
            raise Refused(f"{self.state.name} to {to.name} takes no {', '.join(sorted(named.keys() - needed - taken))}", 22)
        if attributes.pkey_index or (attributes.port or 1) != 1 or (attributes.path_mtu or 1) > self.device.info.active_mtu:
            raise Refused("expected pkey_index 0, port 1 and a path_mtu that is not above the active MTU", 22)
        if max(attributes.max_rd_atomic or 0, attributes.max_dest_rd_atomic or 0) > 16:
            raise Refused("expected max_rd_atomic and max_dest_rd_atomic of at most 16", 22)
        if attributes.address is not None and (attributes.address.dgid or b"")[:12] != bytes(10) + b"\xff\xff":
            raise Refused("expected an address vector with the GID of an IPv4 address", 22)
        if to == QpState.RESET:
            self.reset()
            return
        self.attributes.update(named)
        if attributes.rq_psn is not None:
            self.expected = attributes.rq_psn
        if attributes.sq_psn is not None:
            self.next_psn = self.cursor = attributes.sq_psn
        self.state = to
        if to == QpState.ERR:
            self.flush()
        else:
            self.drained = to == QpState.SQD and self.drained
            self.pump()

    # Both ends.

    def receive_packet(self, packet: Packet) -> None:
        if self.state in (QpState.RESET, QpState.INIT, QpState.ERR):
            return
        if packet.p_key & 0x7FFF != 0x7FFF or (packet.opcode >> 5 == 3) != (self.service == Service.UD):
            return
        if self.service == Service.UD:
            self.receive_datagram(packet)
            return
        if packet.source != self.device.ip_of(self.address):
            return
        if packet.opcode in (READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK):
            if self.state in (QpState.RTS, QpState.SQD) and len(packet.headers) == header_bytes(packet.opcode):
                self.receive_response(packet)
        else:
            self.receive_request(packet)

    def transmit(self, packet: Packet) -> None:
        packet.dest_qpn = self.attribute("dest_qpn")
        self.device.transmit(self.qpn, self.address, packet)

    def flush(self) -> None:
        """The error state: the send queue first, each in order."""
        self.flush_sends()
        receives, self.receives = self.receives, []
        if self.message is not None and self.message.receive is not None:
            receives.insert(0, self.message.receive)
        self.message = None
        for receive in receives:
            if not self.has("flush-forgotten"):
                self.device.complete(self, receive.wr_id, Status.WR_FLUSH_ERR, Opcode.RECV)

    def flush_sends(self) -> None:
        sends, self.sends = self.sends, []
        self.timer = self.rnr_until = None
        for wqe in sends:
            if not self.has("flush-forgotten"):
                self.complete(wqe.request, Status.WR_FLUSH_ERR)

    def complete(self, request: SendRequest, status: Status = Status.SUCCESS, byte_len: int = 0) -> None:
        if request.signaled or status != Status.SUCCESS:
            self.device.complete(self, request.wr_id, status, Opcode.of(request.operation), byte_len)

    # Datagrams (9.8.3): what is sent is done, what does not fit is lost.

    def receive_datagram(self, packet: Packet) -> None:
        if packet.opcode not in (DATAGRAM, DATAGRAM_IMM) or len(packet.headers) != header_bytes(packet.opcode):
            return
        if struct.unpack(">I", packet.headers[:4])[0] != self.attribute("qkey") or not self.receives:
            return
        receive = self.receives.pop(0)
        # The IPv4 header stands in the second half of 40 bytes before the payload.
        data = bytes(20) + packet.ip + packet.payload
        place, status = receive.local, Status.SUCCESS
        if place is None or place.length < len(data):
            status = Status.LOC_LEN_ERR
        elif not self.device.writable(place):
            status = Status.LOC_PROT_ERR
        if status != Status.SUCCESS or place is None:
            self.device.complete(self, receive.wr_id, status, Opcode.RECV)
            return
        place.memory.data[place.offset : place.offset + len(data)] = data
        self.device.complete(self, receive.wr_id, opcode=Opcode.RECV, byte_len=len(data), imm=packet.imm())

    def send_datagrams(self) -> None:
        while self.sends and self.state == QpState.RTS:
            request = self.sends.pop(0).request
            address, place, payload = request.address, request.local, b""
            if address is None or (place is not None and self.device.keys.get(place.memory.r_key) is not place.memory):
                self.complete(request, Status.LOC_PROT_ERR)
                self.state = QpState.SQE
                self.flush_sends()
                return
            if place is not None:
                payload = bytes(place.memory.data[place.offset : place.offset + place.length])
            # A Q_Key with the high bit set stands for the queue pair's own.
            own = request.remote_qkey >> 31
            headers = struct.pack(">II", self.attribute("qkey") if own else request.remote_qkey, self.qpn)
            opcode = DATAGRAM
            if request.operation == Operation.SEND_IMM:
                opcode, headers = DATAGRAM_IMM, headers + struct.pack(">I", request.imm)
            packet = Packet(opcode, self.next_psn, request.remote_qpn, headers=headers, payload=payload)
            packet.solicited = request.solicited
            self.device.transmit(self.qpn, address, packet)
            self.next_psn = self.cursor = (self.next_psn + 1) % PSNS
            self.complete(request)

    # The responder (9.7.4, 9.7.5).

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
        """The NAK, the event, the error state."""
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
        # First, Middle and Last come in this order, and nothing between them.
        if self.message is None:
            in_order = opcode in BEGINS or not carries
        else:
            same = opcode in (SENDS if self.message.receive is not None else WRITES)
            in_order = same and opcode not in BEGINS
        if not in_order:
            raise Nak(INVALID)
        # First and Middle are full, Last is not empty, requests without data have none.
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
        """A packet of a SEND or WRITE is done."""
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
        if memory is None or not getattr(memory.access, right):
            raise Nak(ACCESS)
        if address < memory.address or address + length > memory.address + memory.length:
            raise Nak(ACCESS)
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
        """A READ or atomic is kept, so that its duplicate can be answered."""
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
        """A duplicate (9.7.5.1.4): SENDs and WRITEs are acknowledged, READs read anew, atomics answered as before."""
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

    # The requester (9.7.3, 9.7.5.2.8, 9.7.6).

    def pump(self) -> None:
        """Sends what may be sent now."""
        if self.service == Service.UD:
            self.send_datagrams()
        while self.service == Service.RC and self.state in (QpState.RTS, QpState.SQD) and self.rnr_until is None:
            if self.cursor == self.next_psn and not self.begin():
                break
            if self.cursor == self.next_psn:
                continue
            self.send_packet()
        self.arm()
        if self.state == QpState.SQD and not self.drained and not any(wqe.first is not None for wqe in self.sends):
            self.drained = True
            self.device.report("IBV_EVENT_SQ_DRAINED", self)

    def begin(self) -> bool:
        """Gives the next request its PSNs; whether there was one that may begin."""
        index = next((at for at, wqe in enumerate(self.sends) if wqe.first is None), None)
        if index is None or self.state == QpState.SQD:
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
            # What was sent before it is answered first, so that completions stay in order.
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
            # What completes no receive raises no event (9.2.3).
            solicited = request.solicited and last and request.operation != Operation.WRITE
            packet = Packet(opcode, self.cursor, ack=last, solicited=solicited, headers=headers, payload=payload)
            self.cursor = (self.cursor + 1) % PSNS
        self.transmit(packet)

    def oldest(self) -> int:
        front = self.sends[0] if self.sends else None
        return (front.first + front.acked) % PSNS if front and front.first is not None else self.next_psn

    def receive_response(self, packet: Packet) -> None:
        outstanding = since(self.next_psn, self.oldest())
        if since(packet.psn, self.oldest()) >= outstanding:
            return  # To what was never sent, or is finished.
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
        """Completes SENDs and WRITEs before ``end``; whether no READ or atomic without its answer is in the way."""
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
        """A NAK speaks for all before it; whether the oldest request is now the one that it is for."""
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
        """Something was acknowledged: both counters begin anew, and the timer."""
        self.retries = self.rnr_retries = 0
        self.implied_nak = False
        self.rnr_until = self.timer = None
        self.arm()

    def arm(self) -> None:
        code = self.attribute("timeout")
        if not code or self.rnr_until is not None or self.cursor == self.oldest() or self.state == QpState.ERR:
            self.timer = None
        elif self.timer is None:
            # Between once and four times is conforming (C9-142).
            self.timer = time.monotonic() + 2 * 4.096e-6 * (1 << code)

    def spend_retry(self) -> bool:
        if self.retries >= self.attribute("retry_cnt"):
            self.fail(Status.RETRY_EXC_ERR)
            return False
        self.retries += 1
        return True

    def go_back(self, implied: bool = False) -> None:
        """A sequence NAK, an answer that skips one which is missing, or a time-out: again from the oldest PSN."""
        if implied:
            if self.implied_nak:
                return
            self.implied_nak = True
        if self.spend_retry():
            self.cursor = self.oldest()
            self.timer = None
            self.pump()

    def not_ready(self, code: int) -> None:
        """An RNR NAK: waits, or gives up. A count of 7 has no end."""
        count = self.attribute("rnr_retry")
        if count < 7 and self.rnr_retries >= count:
            self.fail(Status.RNR_RETRY_EXC_ERR)
            return
        self.rnr_retries += 1
        self.cursor = self.oldest()
        interval = 0.0 if self.has("no-rnr-timer") else RNR_10US[code] * 10e-6 + LATE
        self.timer, self.rnr_until = None, time.monotonic() + interval
        self.arm()

    def fail(self, status: Status) -> None:
        """The oldest request fails, and with it the queue pair."""
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


class SoftRoce(Device):
    """The device: its port, its memory, its queue pairs. One lock is around all of it."""

    name = "soft0"

    def __init__(
        self, path: str, peer: str, ip: str, mac: str, deviations: frozenset[str] = frozenset(),
        lacks: frozenset[Operation] = frozenset(), has_ud: bool = True,
    ) -> None:
        self.deviations = deviations
        self.lacks = lacks | {Operation.SEND_INVALIDATE}
        self.has_ud = has_ud
        self.ip, self.mac = ipaddress.IPv4Address(ip).packed, bytes.fromhex(mac.replace(":", ""))
        self.peer = peer
        self.info = DeviceInfo(
            gids=[Gid.of_ip(0, ip)],
            firmware="1",
            vendor_id=0x00_02C9,
            node_guid=0x0200_00FF_FE00_0001,
            active_mtu=5,
            atomics=not self.lacks & {Operation.COMPARE_SWAP, Operation.FETCH_ADD},
            # What it has not is not asked of it, and tests of that are NOT_APPLICABLE.
            capabilities=Capabilities(
                operations=(has := [of for of in Operation if of not in self.lacks]),
                answers=has,
                services=[Service.RC, Service.UD] if has_ud else [Service.RC],
            ),
        )
        self.told: list[Callable[[], None]] = []
        self.keys: dict[int, Memory] = {}
        self.pairs: dict[int, Pair] = {}
        self.next_qpn = 0x11
        self.neighbours: dict[bytes, bytes] = {}
        self.lock = threading.Lock()
        self.frames: "queue.Queue[Optional[bytes]]" = queue.Queue()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sender.settimeout(0.1)
        for work in (self.take_in, self.work):
            threading.Thread(target=work, daemon=True).start()

    # What it tells: kept until the packets of the same step have left.

    def complete(self, *of: Any, **named: Any) -> None:
        self.told.append(lambda: Device.complete(self, *of, **named))

    def report(self, *of: Any) -> None:
        self.told.append(lambda: Device.report(self, *of))

    def tell(self) -> None:
        told, self.told = self.told, []
        for tell in told:
            tell()

    # Verbs.

    def open(self) -> DeviceInfo:
        return self.info

    def register_memory(self, length: int, access: Access) -> Memory:
        memory = super().register_memory(length, access)
        with self.lock:
            self.keys[memory.r_key] = memory
        return memory

    def deregister_memory(self, memory: Memory) -> None:
        with self.lock:
            self.keys.pop(memory.r_key, None)

    def read_memory(self, memory: Memory, offset: int, length: int) -> bytes:
        with self.lock:
            return super().read_memory(memory, offset, length)

    def write_memory(self, memory: Memory, offset: int, data: bytes) -> None:
        with self.lock:
            super().write_memory(memory, offset, data)

    def create_qp(self, service: Service, send_depth: int, receive_depth: int) -> QueuePair:
        if service == Service.UD and not self.has_ud:
            raise Refused("this device has reliable connections alone")
        with self.lock:
            self.next_qpn += 1
            pair = self.pairs[self.next_qpn] = Pair(self, self.next_qpn, service, send_depth, receive_depth)
            return pair

    def destroy_qp(self, qp: QueuePair) -> None:
        with self.lock:
            self.pairs.pop(qp.qpn, None)

    def modify_qp(self, qp: QueuePair, state: QpState, attributes: QpAttributes) -> None:
        with self.lock:
            self.pairs[qp.qpn].modify(state, attributes)
            self.tell()
        self.wake()

    def query_qp(self, qp: QueuePair) -> QpStatus:
        with self.lock:
            pair = self.pairs[qp.qpn]
            return QpStatus(pair.state, pair.next_psn, pair.expected)

    def post_send(self, qp: QueuePair, request: SendRequest) -> None:
        with self.lock:
            pair = self.pairs[qp.qpn]
            if pair.state in (QpState.RESET, QpState.INIT, QpState.RTR):
                raise Refused(f"expected a queue pair in RTS, and this one is in {pair.state.name}", 22)
            if len(pair.sends) >= pair.depths[0]:
                raise Refused("the send queue is full", 12)
            if request.operation in self.lacks:
                raise Refused(f"this device has no {request.operation.name}", 95)
            if request.operation in (Operation.COMPARE_SWAP, Operation.FETCH_ADD):
                if request.local is None or request.local.length < 8:
                    raise Refused("an atomic needs 8 bytes of local memory", 22)
            if pair.service == Service.UD:
                if request.operation not in (Operation.SEND, Operation.SEND_IMM):
                    raise Refused("a datagram queue pair has SENDs alone", 22)
                if request.local is not None and request.local.length > 128 << self.info.active_mtu:
                    raise Refused("a datagram is not longer than the MTU", 22)
                if request.address is None or (request.address.dgid or b"")[:12] != bytes(10) + b"\xff\xff":
                    raise Refused("expected an address with the GID of an IPv4 address", 22)
            pair.sends.append(Wqe(request))
            if pair.state in (QpState.ERR, QpState.SQE):
                pair.flush_sends()
            else:
                pair.pump()
            self.tell()
        self.wake()

    def post_receive(self, qp: QueuePair, request: ReceiveRequest) -> None:
        with self.lock:
            pair = self.pairs[qp.qpn]
            if pair.state == QpState.RESET:
                raise Refused("expected a queue pair in INIT or beyond, and this one is in RESET", 22)
            if len(pair.receives) >= pair.depths[1]:
                raise Refused("the receive queue is full", 12)
            pair.receives.append(request)
            if pair.state == QpState.ERR:
                pair.flush()
            self.tell()

    def writable(self, place: Slice) -> bool:
        return self.keys.get(place.memory.r_key) is place.memory and place.memory.access.local_write

    # The port.

    @staticmethod
    def ip_of(address: AddressVector) -> str:
        return str(ipaddress.IPv4Address((address.dgid or b"")[12:]))

    def wake(self) -> None:
        """The timers have changed."""
        self.frames.put(None)

    def take_in(self) -> None:
        """Takes frames in at once: who sends to a full socket must wait."""
        while True:
            self.frames.put(self.socket.recv(65536))

    def work(self) -> None:
        while True:
            with self.lock:
                due = min((at for pair in self.pairs.values() if (at := pair.due()) is not None), default=None)
            try:
                wait = None if due is None else max(0.0, due - time.monotonic())
                frame = self.frames.get(timeout=wait)
            except queue.Empty:
                frame = None
            with self.lock:
                if frame is not None:
                    self.receive_frame(frame)
                now = time.monotonic()
                for pair in list(self.pairs.values()):
                    pair.tick(now)
                self.tell()

    def send_frame(self, frame: bytes) -> None:
        try:
            self.sender.sendto(frame, self.peer)
        except OSError:
            pass  # Nobody is on the other end: the frame is lost, as on any link.

    def receive_frame(self, frame: bytes) -> None:
        kind, rest = frame[12:14], frame[14:]
        if kind == b"\x08\x06" and rest[:6] == bytes.fromhex("000108000604") and len(rest) >= 28:
            if rest[24:28] == self.ip:
                self.neighbours[rest[14:18]] = rest[8:14]
                if rest[6:8] == b"\0\1":
                    reply = rest[:6] + b"\0\2" + self.mac + self.ip + rest[8:18]
                    self.send_frame(rest[8:14] + self.mac + kind + reply)
        elif kind == b"\x08\x00" and frame[:6] == self.mac and len(rest) >= 44 and rest[0] == 0x45:
            packet = self.parse(rest)
            pair = self.pairs.get(packet.dest_qpn) if packet is not None else None
            if packet is not None and pair is not None:
                self.neighbours[rest[12:16]] = frame[6:12]
                pair.receive_packet(packet)

    def parse(self, ip: bytes) -> Optional[Packet]:
        length, fragment = struct.unpack(">HxxH", ip[2:8])
        if ip[9] != 17 or ip[16:20] != self.ip or checksum(ip[:20]) or fragment & 0x3FFF or not 44 <= length <= len(ip):
            return None
        ip = ip[:length]
        port, udp_length = struct.unpack(">HH", ip[22:26])
        if port != 4791 or udp_length != length - 20:
            return None
        if icrc(ip[:-4]) != ip[-4:] and "icrc-ignored" not in self.deviations:
            return None
        opcode, flags, p_key, qpn, psn = struct.unpack(">BBHII", ip[28:40])
        pad = flags >> 4 & 3
        end = length - 4 - pad
        if flags & 0x0F or opcode >> 5 not in (0, 3) or end < 40:
            return None
        size = header_bytes(opcode)
        ack = bool(psn >> 31)
        return Packet(
            opcode,
            psn & 0xFFFFFF,
            qpn & 0xFFFFFF,
            ack,
            bool(flags >> 7),
            p_key,
            ip[40 : min(40 + size, end)],
            ip[40 + size : end],
            str(ipaddress.IPv4Address(ip[12:16])),
            ip[:20],
        )

    def transmit(self, qpn: int, address: AddressVector, packet: Packet) -> None:
        pad = -len(packet.payload) % 4
        flags = packet.solicited << 7 | 1 << 6 | pad << 4
        psn = packet.ack << 31 | packet.psn
        bth = struct.pack(">BBHII", packet.opcode, flags, packet.p_key, packet.dest_qpn, psn)
        rest = bth + packet.headers + packet.payload + bytes(pad)
        to = (address.dgid or b"")[12:]
        udp = struct.pack(">HHHH", 0xC000 | qpn & 0x3FFF, 4791, 8 + len(rest) + 4, 0)
        length, tos, hops = 20 + len(udp) + len(rest) + 4, address.traffic_class, address.hop_limit
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, tos, length, 0, 0x4000, hops, 17, 0, self.ip, to)
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        whole = ip + udp + rest
        mac = self.neighbours.get(to)
        if mac is None:
            # Lost, as the first packets to a neighbour may be; but ask who it is.
            arp = bytes.fromhex("0001080006040001") + self.mac + self.ip + bytes(6) + to
            self.send_frame(b"\xff" * 6 + self.mac + b"\x08\x06" + arp)
            return
        self.send_frame(mac + self.mac + b"\x08\x00" + whole + icrc(whole))


def main() -> None:
    parser = argparse.ArgumentParser(description="A RoCE v2 device in Python, behind an agent.")
    parser.add_argument("--listen", required=True, help="where the agent listens: unix:PATH or IP:PORT")
    parser.add_argument("--socket", required=True, help="the device's unix datagram socket: `remote` in the rig file")
    parser.add_argument("--peer", required=True, help="the tester's unix datagram socket: `local` in the rig file")
    parser.add_argument("--ip", default="10.0.0.1")
    parser.add_argument("--mac", default="02:00:00:00:00:01")
    listed = "; ".join(f"{name}: {what}" for name, what in DEVIATIONS.items())
    parser.add_argument("--deviation", action="append", default=[], choices=DEVIATIONS, metavar="NAME", help=listed)
    parser.add_argument("--no-ud", action="store_true", help="reliable connections alone, as many a core has them")
    operations = [operation.name for operation in Operation]
    parser.add_argument("--lacks", action="append", default=[], choices=operations, help="an operation that it has not")
    given = parser.parse_args()
    lacks = frozenset(Operation[name] for name in given.lacks)
    device = SoftRoce(
        given.socket, given.peer, given.ip, given.mac, frozenset(given.deviation), lacks, has_ud=not given.no_ud
    )
    serve(device, given.listen)


if __name__ == "__main__":
    main()
