"""The interface of a device to its agent: a class to subclass, and the types of its arguments and results."""

from __future__ import annotations

import enum
import ipaddress
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional, Sequence

if TYPE_CHECKING:
    from .session import Session


def now_ns() -> int:
    """Returns the agent's clock: CLOCK_MONOTONIC, in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Refused(Exception):
    """A device's method refuses a command with this exception. The tester gets the text; the session continues.

    ``errno`` is the error number of the device's driver, if there is one. 5, 6 and 19 (EIO, ENXIO, ENODEV) tell the
    tester that the device itself may have disappeared.
    """

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.errno = errno


class Service(enum.IntEnum):
    """A transport service."""

    RC = 1
    UD = 2


class QpState(enum.IntEnum):
    """A state of a queue pair."""

    RESET = 1
    INIT = 2
    RTR = 3
    RTS = 4
    SQD = 5
    SQE = 6
    ERR = 7


class Operation(enum.IntEnum):
    """The operation of a send request."""

    SEND = 1
    SEND_IMM = 2
    SEND_INVALIDATE = 3
    WRITE = 4
    WRITE_IMM = 5
    READ = 6
    COMPARE_SWAP = 7
    FETCH_ADD = 8


class Status(enum.IntEnum):
    """Status of a completion (enum ibv_wc_status)."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    BAD_RESP_ERR = 7
    LOC_ACCESS_ERR = 8
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13
    FATAL_ERR = 19
    GENERAL_ERR = 21


class Opcode(enum.IntEnum):
    """The completed operation (enum ibv_wc_opcode)."""

    SEND = 0
    RDMA_WRITE = 1
    RDMA_READ = 2
    COMP_SWAP = 3
    FETCH_ADD = 4
    RECV = 128
    RECV_RDMA_WITH_IMM = 129

    @classmethod
    def of(cls, operation: Operation) -> "Opcode":
        """Returns the opcode in the completion of a send request."""
        return {
            Operation.WRITE: cls.RDMA_WRITE,
            Operation.WRITE_IMM: cls.RDMA_WRITE,
            Operation.READ: cls.RDMA_READ,
            Operation.COMPARE_SWAP: cls.COMP_SWAP,
            Operation.FETCH_ADD: cls.FETCH_ADD,
        }.get(operation, cls.SEND)


@dataclass(frozen=True)
class Access:
    """The permitted accesses to memory, or on a queue pair."""

    local_write: bool = False
    remote_write: bool = False
    remote_read: bool = False
    remote_atomic: bool = False


@dataclass(frozen=True)
class Gid:
    """An entry of the GID table."""

    index: int
    gid: bytes
    kind: str = "RoCE v2"

    def __post_init__(self) -> None:
        if len(self.gid) != 16:
            raise ValueError(f"a GID has 16 bytes, not {len(self.gid)}")
        if self.kind not in ("IB", "RoCE v1", "RoCE v2"):
            raise ValueError(f'the kind of a GID is "IB", "RoCE v1" or "RoCE v2", not {self.kind!r}')

    @classmethod
    def of_ip(cls, index: int, ip: str) -> "Gid":
        """Returns the RoCE v2 GID of an IP address."""
        address = ipaddress.ip_address(ip)
        if address.version == 4:
            return cls(index, bytes(10) + b"\xff\xff" + address.packed)
        return cls(index, address.packed)


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a device. A field that is empty or 0 declares no limit.

    The tester does not use a missing capability. A test that needs the capability is NOT_APPLICABLE, with that reason.
    """

    #: Operations that the device accepts as send requests.
    operations: Sequence[Operation] = ()
    #: Operations that the device executes for the other side.
    answers: Sequence[Operation] = ()
    #: Services of the device's queue pairs.
    services: Sequence[Service] = ()
    #: Path MTUs that can be set, as codes: 1 = 256 to 5 = 4096 bytes.
    path_mtus: Sequence[int] = ()
    #: States that a queue pair can enter.
    qp_states: Sequence[QpState] = ()
    #: Codes of the local ACK timeout that can be set, 0 to 31; 0 = none.
    timeouts: Sequence[int] = ()
    #: Codes of the RNR NAK interval that can be set, 0 to 31.
    min_rnr_timers: Sequence[int] = ()
    #: Values of rnr_retry that can be set, 0 to 7.
    rnr_retries: Sequence[int] = ()
    #: Longest message that the device sends, in bytes.
    max_message: int = 0
    #: Largest memory that can be registered, in bytes.
    max_memory: int = 0
    #: Send requests that a queue pair can hold.
    max_send_depth: int = 0
    #: Receive requests that a queue pair can hold.
    max_receive_depth: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("path_mtus", 1, 5),
            ("timeouts", 0, 31),
            ("min_rnr_timers", 0, 31),
            ("rnr_retries", 0, 7),
        ):
            for value in getattr(self, name):
                if not least <= value <= most:
                    raise ValueError(f"{name} has {value}; expected {least} to {most}")


@dataclass(frozen=True)
class DeviceInfo:
    """The description of a device, for ``Open``. ``active_mtu`` is a code: 1 = 256 to 5 = 4096 bytes."""

    gids: Sequence[Gid]
    port: int = 1
    firmware: str = ""
    node_guid: int = 0
    vendor_id: int = 0
    vendor_part_id: int = 0
    hw_ver: int = 0
    port_state: int = 4
    active_mtu: int = 3
    lid: int = 0
    ethernet: bool = True
    max_qp_rd_atom: int = 16
    max_qp_init_rd_atom: int = 16
    atomics: bool = False
    max_qp: int = 64
    driver: str = ""
    capabilities: Optional[Capabilities] = None
    #: The device's longest response time, as a code: 4.096 us * 2^code. 0 declares no limit.
    local_ca_ack_delay: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.local_ca_ack_delay <= 31:
            raise ValueError(f"local_ca_ack_delay is a code of 0 to 31, not {self.local_ca_ack_delay}")
        if not 1 <= self.active_mtu <= 5:
            raise ValueError(f"active_mtu is a code, 1 = 256 to 5 = 4096 bytes, not {self.active_mtu}")
        if self.ethernet and not self.gids:
            raise ValueError("a device on Ethernet has at least one GID: Gid.of_ip(0, \"10.0.0.1\")")


@dataclass
class Memory:
    """Registered memory. A device may subclass it. By default the bytes are in the agent, in ``data``."""

    length: int
    access: Access
    address: int
    l_key: int
    r_key: int
    data: bytearray = field(default_factory=bytearray, repr=False)
    #: The memory's handle in the session; the library sets it.
    handle: int = field(default=0, compare=False)


@dataclass
class QueuePair:
    """A queue pair. A device may subclass it to add its own state."""

    qpn: int
    #: The queue pair's handle in the session; the library sets it.
    handle: int = field(default=0, kw_only=True)
    #: The session that made the queue pair; the library sets it.
    _session: Optional["Session"] = field(default=None, kw_only=True, repr=False, compare=False)


@dataclass(frozen=True)
class Slice:
    """A nonempty part of registered memory."""

    memory: Memory
    offset: int
    length: int


@dataclass(frozen=True)
class AddressVector:
    """The path to another port. ``dgid`` is None when packets carry no GRH."""

    dgid: Optional[bytes] = None
    sgid_index: int = 0
    hop_limit: int = 0
    traffic_class: int = 0
    flow_label: int = 0
    dlid: int = 0
    sl: int = 0


@dataclass(frozen=True)
class QpAttributes:
    """Attributes of a queue pair. None means that the tester did not name the attribute, which stays unchanged."""

    pkey_index: Optional[int] = None
    port: Optional[int] = None
    access: Optional[Access] = None
    path_mtu: Optional[int] = None
    dest_qpn: Optional[int] = None
    rq_psn: Optional[int] = None
    sq_psn: Optional[int] = None
    max_dest_rd_atomic: Optional[int] = None
    max_rd_atomic: Optional[int] = None
    min_rnr_timer: Optional[int] = None
    timeout: Optional[int] = None
    retry_cnt: Optional[int] = None
    rnr_retry: Optional[int] = None
    qkey: Optional[int] = None
    address: Optional[AddressVector] = None

    def named(self) -> dict[str, object]:
        """Returns the attributes that the tester named, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class QpStatus:
    """The status of a queue pair."""

    state: QpState
    sq_psn: int
    rq_psn: int


@dataclass(frozen=True)
class SendRequest:
    """A request for the send queue. ``local`` is None when the message has no bytes."""

    wr_id: int
    operation: Operation
    local: Optional[Slice] = None
    signaled: bool = False
    solicited: bool = False
    fence: bool = False
    remote_address: int = 0
    r_key: int = 0
    compare: int = 0
    swap_add: int = 0
    imm: int = 0
    #: The destination of a UD request: address, QPN and Q_Key.
    address: Optional[AddressVector] = None
    remote_qpn: int = 0
    remote_qkey: int = 0


@dataclass(frozen=True)
class ReceiveRequest:
    """A request for the receive queue. ``local`` is None when the request has no buffer."""

    wr_id: int
    local: Optional[Slice] = None


class Device:
    """The device of an agent. Subclass it, and write the methods that your device supports.

    The library calls the methods one at a time, in the order of the tester's commands, from its own thread. A method
    must be fast: no other command runs meanwhile, and the tester gives up on an agent that is silent for ten seconds. A
    method that cannot execute a command raises :class:`Refused`. Any other exception is a fault of the agent: it ends
    the session and does not count against the device.

    :meth:`complete` and :meth:`report` may be called from any thread, also from within the methods.
    """

    #: The device's name, which the tester compares with the rig file's ``dut_device``.
    name = "device"
    #: Seconds between two calls of :meth:`poll`; None for a device that calls :meth:`complete` by itself.
    poll_interval: Optional[float] = None

    _sessions: tuple["Session", ...] = ()
    _next_address = 0x1_0000_0000
    _next_key = 0x100

    # The device.

    def open(self) -> DeviceInfo:
        """Returns the description of the device. A session may call this several times."""
        raise NotImplementedError(f"{type(self).__name__}.open() is not written: return a DeviceInfo")

    def close(self) -> None:
        """Called after a session has ended and all its objects are destroyed."""

    # Memory. By default the bytes are in the agent, and the device accesses them as ``memory.data``.

    def register_memory(self, length: int, access: Access) -> Memory:
        """Registers memory, all zeros, with a unique address, l_key and r_key."""
        address, key = self._next_address, self._next_key
        self._next_address += (length + 0x1FFF) // 0x1000 * 0x1000
        self._next_key += 0x101
        return Memory(length, access, address, key, key, bytearray(length))

    def deregister_memory(self, memory: Memory) -> None:
        """Deregisters memory: its keys become invalid."""

    def read_memory(self, memory: Memory, offset: int, length: int) -> bytes:
        """Returns bytes of registered memory, including all writes of the device so far."""
        return bytes(memory.data[offset : offset + length])

    def write_memory(self, memory: Memory, offset: int, data: bytes) -> None:
        """Writes registered memory; the device sees the bytes from now on."""
        memory.data[offset : offset + len(data)] = data

    # Queue pairs.

    def create_qp(self, service: Service, send_depth: int, receive_depth: int) -> QueuePair:
        """Creates a queue pair in RESET, with its own completion queue."""
        raise Refused(f"{self.name} has no queue pairs: its agent does not write create_qp")

    def modify_qp(self, qp: QueuePair, state: QpState, attributes: QpAttributes) -> None:
        """Moves a queue pair to a state, and sets exactly the named attributes. A refusal changes nothing.

        In ERR, the device flushes all posted requests with ``Status.WR_FLUSH_ERR``, the send queue first. In RESET, the
        device discards all posted requests without completions.
        """
        raise Refused(f"{self.name} modifies no queue pair: its agent does not write modify_qp")

    def query_qp(self, qp: QueuePair) -> QpStatus:
        """Returns the current status of a queue pair in the device."""
        raise Refused(f"{self.name} tells nothing of a queue pair: its agent does not write query_qp")

    def destroy_qp(self, qp: QueuePair) -> None:
        """Destroys a queue pair without flushing its requests."""

    def post_send(self, qp: QueuePair, request: SendRequest) -> None:
        """Accepts a send request. A success completes only if ``signaled`` is set; an error always completes."""
        raise Refused(f"{self.name} takes no send requests: its agent does not write post_send")

    def post_receive(self, qp: QueuePair, request: ReceiveRequest) -> None:
        """Accepts a receive request."""
        raise Refused(f"{self.name} takes no receive requests: its agent does not write post_receive")

    def poll(self) -> None:
        """Polls a device that does not push completions and events. Calls :meth:`complete` for each completion and
        :meth:`report` for each event. The library calls this method before and after each command, and every
        ``poll_interval`` seconds."""

    # Reports of the device, from any thread.

    def complete(
        self,
        qp: QueuePair,
        wr_id: int,
        status: int = Status.SUCCESS,
        opcode: int = Opcode.SEND,
        byte_len: int = 0,
        imm: Optional[int] = None,
        vendor_error: int = 0,
        earliest_ns: Optional[int] = None,
    ) -> None:
        """Reports the completion of a request. Call this method at the completion. If your code notices the completion
        later, pass as ``earliest_ns`` a time of :func:`now_ns` at which the request had certainly not completed. In
        :meth:`poll` the default is the time of the previous poll."""
        if qp._session is not None:
            qp._session.completed(qp, wr_id, int(status), int(opcode), byte_len, imm, vendor_error, earliest_ns)

    def report(self, name: str, qp: Optional[QueuePair] = None) -> None:
        """Reports an asynchronous event by its name in libibverbs, such as "IBV_EVENT_QP_ACCESS_ERR"."""
        told = self._sessions if qp is None else (qp._session,)
        for session in told:
            if session is not None:
                session.reported(name, qp)

    def gone(self, why: str) -> None:
        """Reports that the device is unusable: each session ends with this reason. No test fails because of the
        report."""
        for session in self._sessions:
            session.device_gone(why)
