"""Opcodes, packets and checksums, and the state of requests and messages."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Optional

from verbatim_client.agent import Operation, ReceiveRequest, SendRequest, Slice

# Opcodes of a reliable connection (9.2).
SENDS = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05}
WRITES = {0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B}
BEGINS = {0x00, 0x04, 0x05, 0x06, 0x0A, 0x0B}
ENDS = {0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0A, 0x0B}
WITH_IMM = {0x03, 0x05, 0x09, 0x0B, 0x65}
READ, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = 0x0C, 0x0D, 0x0E, 0x0F, 0x10
ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD = 0x11, 0x12, 0x13, 0x14
DATAGRAM, DATAGRAM_IMM = 0x64, 0x65

# Syndromes of an AETH (9.7.5): ACK without a credit count, RNR NAK, NAK; then the NAK codes.
ACK_SYNDROME, RNR_NAK, NAK = 0x1F, 0x20, 0x60
SEQUENCE, INVALID, ACCESS, OPERATIONAL = 0, 1, 2, 3

PSNS = 1 << 24
HALF = PSNS // 2
#: Seconds added to an RNR interval. A tester on a slow path can then tell that the retry was not early. Kernels wait
#: a tick or two longer as well.
LATE = 0.05
#: RNR NAK timer codes in units of 10 us (9.7.5.2.8).
RNR_10US = [65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072]
RNR_10US += [4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152]


def since(psn: int, earlier: int) -> int:
    return (psn - earlier) % PSNS


def icrc(packet: bytes) -> bytes:
    """Computes the ICRC for an IPv4 packet. Fields that may change on the way count as ones (annex A17)."""
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
    """A packet without the headers before its BTH."""

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
    """A request cannot be executed; the argument is the NAK code."""


class NotReady(Exception):
    """A request needs a receive request, but the receive queue is empty."""


@dataclass
class Wqe:
    """A send request: its first PSN, the number of its PSNs, and how many of them have an ACK or a READ response."""

    request: SendRequest
    first: Optional[int] = None
    psns: int = 0
    acked: int = 0
    #: For a READ: the indices of the response packets at which the request and its retries began.
    starts: set[int] = field(default_factory=set)

    @property
    def waits(self) -> bool:
        """Whether the request completes with returned data instead of an ACK."""
        return self.request.operation in (Operation.READ, Operation.COMPARE_SWAP, Operation.FETCH_ADD)


@dataclass
class Message:
    """The SEND or WRITE that is arriving."""

    receive: Optional[ReceiveRequest]
    place: Optional[Slice]
    at: int
    left: int
