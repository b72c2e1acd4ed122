#!/usr/bin/python3
"""A RoCE v2 device in Python, behind an agent. The link is two unix datagram sockets; each datagram holds one frame.

    soft_roce.py --listen unix:/tmp/soft/agent.sock --socket /tmp/soft/device.sock --peer /tmp/soft/tester.sock

The example shows how to test your own device. ``--deviation NAME`` breaks one rule; the tests must find that. The
device has UD, and RC with SEND, WRITE, READ and atomics, on IPv4. It has no SEND with Invalidate, no congestion
control, and no limit of outstanding packets.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import queue
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Optional

from verbatim_client.agent import (
    Access,
    AddressVector,
    Capabilities,
    Device,
    DeviceInfo,
    Gid,
    Memory,
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
    serve,
)

from roce.pair import Pair
from roce.wire import Packet, Wqe, checksum, header_bytes, icrc


DEVIATIONS = {
    "nak-wrong-psn": "the NAK of a gap has the PSN that came, not the one that is missing",
    "msn-stands-still": "the MSN of acknowledgements never advances",
    "no-rnr-timer": "after an RNR NAK a request is sent again at once",
    "duplicate-delivered": "a SEND that comes again is delivered again",
    "nak-wrong-code": "what no memory region allows is refused as an invalid request",
    "icrc-ignored": "a packet with a wrong ICRC is taken",
    "flush-forgotten": "a queue pair in the error state completes nothing that was posted",
    "hangs": "after the first packet that comes again nothing is taken any more, until it is started anew",
}


class SoftRoce(Device):
    """The device: its port, its memory, its queue pairs. One lock protects the whole state."""

    name = "soft0"
    #: Limit of outstanding packets, all of one message; 0: no limit.
    window = 0
    #: Outstanding READs and atomics of a queue pair.
    max_rd_atomic = 16

    def __init__(
        self, path: str, peer: str, ip: str, mac: str, deviations: frozenset[str] = frozenset(),
        lacks: frozenset[Operation] = frozenset(), has_ud: bool = True, slow: int = 1,
    ) -> None:
        self.slow = slow
        self.hangs = False
        self.seen: set[tuple[int, int]] = set()
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
            # The tester does not use a capability that is missing here. Tests that need it are NOT_APPLICABLE.
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
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sender.settimeout(0.1)
        for work in (self.take_in, self.work):
            threading.Thread(target=work, daemon=True).start()

    def serve(self, listen: str) -> None:
        """Serves until the agent is told to end, then removes the device's socket."""
        try:
            serve(self, listen)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    # Completions and events, delayed until the packets of the same step have been sent.

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

    def clock(self) -> float:
        """Returns the device's own time in seconds. The seconds of a slow device last longer."""
        return time.monotonic() / self.slow

    def wake(self) -> None:
        """Wakes the worker after a change of the timers."""
        self.frames.put(None)

    def take_in(self) -> None:
        """Receives each frame at once: a full socket would block the sender."""
        while True:
            self.frames.put(self.socket.recv(65536))

    def work(self) -> None:
        while True:
            with self.lock:
                due = min((at for pair in self.pairs.values() if (at := pair.due()) is not None), default=None)
            try:
                wait = None if due is None else max(0.0, due - self.clock()) * self.slow
                frame = self.frames.get(timeout=wait)
            except queue.Empty:
                frame = None
            with self.lock:
                if frame is not None:
                    self.receive_frame(frame)
                now = self.clock()
                for pair in list(self.pairs.values()):
                    pair.tick(now)
                self.tell()

    def send_frame(self, frame: bytes) -> None:
        try:
            self.sender.sendto(frame, self.peer)
        except OSError:
            pass  # The other end is closed: the frame is lost, as on any link.

    def receive_frame(self, frame: bytes) -> None:
        kind, rest = frame[12:14], frame[14:]
        if self.hangs:
            return
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
                # Detect a repeated request; responses do not count.
                which = (packet.dest_qpn, packet.psn)
                is_request = packet.opcode & 0x1F < 0x0D or packet.opcode & 0x1F > 0x12
                self.hangs = is_request and which in self.seen and "hangs" in self.deviations
                self.seen.add(which)
                if not self.hangs:
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
            # The neighbour's MAC address is unknown: drop the packet, and send an ARP request.
            arp = bytes.fromhex("0001080006040001") + self.mac + self.ip + bytes(6) + to
            self.send_frame(b"\xff" * 6 + self.mac + b"\x08\x06" + arp)
            return
        self.send_frame(mac + self.mac + b"\x08\x00" + whole + icrc(whole))


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--listen", required=True, help="where the agent listens: unix:PATH or IP:PORT")
    parser.add_argument("--socket", required=True, help="the device's unix datagram socket: `remote` in the rig file")
    parser.add_argument("--peer", required=True, help="the tester's unix datagram socket: `local` in the rig file")
    parser.add_argument("--ip", default="10.0.0.1")
    parser.add_argument("--mac", default="02:00:00:00:00:01")
    listed = "; ".join(f"{name}: {what}" for name, what in DEVIATIONS.items())
    parser.add_argument("--deviation", action="append", default=[], choices=DEVIATIONS, metavar="NAME", help=listed)
    return parser


def main() -> None:
    parser = arguments("A RoCE v2 device in Python, behind an agent.")
    parser.add_argument("--no-ud", action="store_true", help="reliable connections alone, as many a core has them")
    operations = [operation.name for operation in Operation]
    parser.add_argument("--lacks", action="append", default=[], choices=operations, help="an operation that it has not")
    parser.add_argument("--slow", type=int, default=1, metavar="N", help="its clock is N times slower than the world's")
    given = parser.parse_args()
    lacks = frozenset(Operation[name] for name in given.lacks)
    device = SoftRoce(
        given.socket, given.peer, given.ip, given.mac, frozenset(given.deviation), lacks, has_ud=not given.no_ud,
        slow=given.slow,
    )
    device.serve(given.listen)


if __name__ == "__main__":
    main()
