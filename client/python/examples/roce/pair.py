"""A queue pair: its states, completions and datagrams. Requester and responder are in separate modules."""

from __future__ import annotations

import queue
import struct
from typing import Any, Optional

from verbatim_client.agent import (
    AddressVector,
    Opcode,
    Operation,
    QpAttributes,
    QpState,
    QueuePair,
    ReceiveRequest,
    Refused,
    SendRequest,
    Service,
    Status,
)

from .requester import Requester
from .responder import Responder
from .wire import (
    ACK,
    ATOMIC_ACK,
    DATAGRAM,
    DATAGRAM_IMM,
    Message,
    PSNS,
    Packet,
    READ_FIRST,
    READ_LAST,
    READ_MIDDLE,
    READ_ONLY,
    Wqe,
    header_bytes,
)


# For each transition of a queue pair: the required attributes, and the optional ones (11.2.5.2).
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


class Pair(Responder, Requester, QueuePair):
    """A queue pair: requester and responder."""

    def __init__(self, device: Any, qpn: int, service: Service, send_depth: int, receive_depth: int) -> None:
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
        self.next_psn = 0  # PSN of the next request
        self.cursor = 0  # PSN of the next packet; before next_psn in a retry
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
        most = self.device.max_rd_atomic
        if max(attributes.max_rd_atomic or 0, attributes.max_dest_rd_atomic or 0) > most:
            raise Refused(f"expected max_rd_atomic and max_dest_rd_atomic of at most {most}", 22)
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

    # Requester and responder.

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
        """Flushes for the error state: first the send queue, then the receive queue, each in order."""
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

    # Datagrams (9.8.3): a send completes when its packet is sent. A datagram without a receive request is lost.

    def receive_datagram(self, packet: Packet) -> None:
        if packet.opcode not in (DATAGRAM, DATAGRAM_IMM) or len(packet.headers) != header_bytes(packet.opcode):
            return
        if struct.unpack(">I", packet.headers[:4])[0] != self.attribute("qkey") or not self.receives:
            return
        receive = self.receives.pop(0)
        # The IPv4 header is in the second half of the 40 bytes before the payload.
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
            # A Q_Key with the high bit set selects the queue pair's own Q_Key.
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
