"""One session of ``verbatim.agent.v1``: the commands of one client, and its objects on the device."""

from __future__ import annotations

import queue
import threading
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Optional, TypeVar

import grpc

from verbatim_client._proto.verbatim.agent.v1 import agent_pb2, verbs_pb2

from .device import (
    Access,
    AddressVector,
    Device,
    DeviceInfo,
    Memory,
    Operation,
    QpAttributes,
    QpState,
    QueuePair,
    ReceiveRequest,
    Refused,
    SendRequest,
    Service,
    Slice,
    now_ns,
)

#: Limit of the bytes that one command reads or writes.
MAX_TRANSFER = 16 << 20
#: Limit of responses and events that wait for a client. At the limit, the device blocks.
WAITING = 65536
PAGE = 4096


@dataclass(frozen=True)
class Limits:
    """The limits of one session, and the number of concurrent sessions."""

    memory: int = 64 << 20
    queue_pairs: int = 64
    queue_depth: int = 4096
    #: Number of concurrent sessions. Each session has its own queue pairs and memory on the device. The library still
    #: calls the device's methods one at a time.
    sessions: int = 1


# Checked values of the protocol.

_Enum = TypeVar("_Enum", Service, QpState, Operation)


def _one_of(kind: type[_Enum], number: int, what: str) -> _Enum:
    try:
        return kind(number)
    except ValueError:
        raise Refused(f"{number} is no {what}; expected one of 1..={len(kind)}") from None


def _bounded(name: str, value: int, largest: int, least: int = 0) -> int:
    if not least <= value <= largest:
        raise Refused(f"{name} is {value}; expected {least}..={largest}")
    return value


def _access(of: Any) -> Access:
    return Access(of.local_write, of.remote_write, of.remote_read, of.remote_atomic)


_ADDRESS = {"sgid_index": 255, "hop_limit": 255, "traffic_class": 255, "flow_label": (1 << 20) - 1, "dlid": 0xFFFF, "sl": 15}
_ATTRIBUTES = {
    "pkey_index": (0, 0xFFFF),
    "port": (1, 255),
    "path_mtu": (1, 5),
    "dest_qpn": (0, 0xFF_FFFF),
    "rq_psn": (0, 0xFF_FFFF),
    "sq_psn": (0, 0xFF_FFFF),
    "max_dest_rd_atomic": (0, 255),
    "max_rd_atomic": (0, 255),
    "min_rnr_timer": (0, 31),
    "timeout": (0, 31),
    "retry_cnt": (0, 7),
    "rnr_retry": (0, 7),
    "qkey": (0, 0xFFFF_FFFF),
}


def _address(of: Any) -> AddressVector:
    values = {name: _bounded(name, getattr(of, name), largest) for name, largest in _ADDRESS.items()}
    if len(of.dgid) not in (0, 16):
        raise Refused(f"dgid has {len(of.dgid)} bytes; expected 16, or none")
    if not of.dgid and any(values[name] for name in ("hop_limit", "traffic_class", "flow_label", "sgid_index")):
        raise Refused("the address has fields of a GRH and no dgid; give its 16 bytes, or leave the others 0")
    return AddressVector(dgid=bytes(of.dgid) or None, **values)


def _attributes(of: Any) -> QpAttributes:
    given: dict[str, Any] = {
        name: _bounded(name, getattr(of, name), largest, least)
        for name, (least, largest) in _ATTRIBUTES.items()
        if of.HasField(name)
    }
    if of.HasField("access"):
        given["access"] = _access(of.access)
    if of.HasField("address"):
        given["address"] = _address(of.address)
    return QpAttributes(**given)


def _handles(of: dict[int, Any]) -> str:
    shown = ", ".join(str(handle) for handle in list(of)[:8])
    return shown + (f" and {len(of) - 8} more" if len(of) > 8 else "") if of else "none"


class AgentFault(Exception):
    """A method of the device raised an unexpected exception: a fault of the agent, not of the device."""


class Turn:
    """The lock of the device. All sessions share the lock, so the device's methods run one at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: The thread that polls for completions now. ``polled_ns`` is the start of the previous poll.
        self.polling: Optional[int] = None
        self.polled_ns: Optional[int] = None


class Session:
    """The session of one client. The session executes commands one at a time; completions come from any thread."""

    def __init__(self, device: Device, limits: Limits, host: str, turn: Turn) -> None:
        self.device = device
        self.limits = limits
        self.host = host
        self.out: "queue.Queue[Optional[agent_pb2.SessionResponse]]" = queue.Queue(WAITING)
        #: The status with which the stream ends, if it ends with an error.
        self.why: Optional[tuple[grpc.StatusCode, str]] = None
        self.ended = threading.Event()
        self.heard_ns = now_ns()
        self.begun = False
        self._pairs: dict[int, QueuePair] = {}
        self._services: dict[int, Service] = {}
        self._memory: dict[int, Memory] = {}
        #: The number of outstanding requests; the key is the queue pair's handle. ``_names`` holds the handles of the
        #: memory that these requests use.
        self._posted: dict[int, int] = {}
        self._names: dict[int, set[int]] = {}
        self._last_handle = 0
        self._turn = turn
        self._commands = turn.lock
        self._said = threading.Lock()
        self._first_ns: Optional[int] = None

    # Reports of the device.

    def _put(self, earliest: int, latest: int, **kind: Any) -> None:
        at = verbs_pb2.Instant(earliest_ns=earliest, latest_ns=latest)
        response = agent_pb2.SessionResponse(at=at, **kind)
        while not self.ended.is_set():
            try:
                self.out.put(response, timeout=0.5)
                return
            except queue.Full:
                continue

    def completed(
        self,
        qp: QueuePair,
        wr_id: int,
        status: int,
        opcode: int,
        byte_len: int,
        imm: Optional[int],
        vendor_error: int,
        earliest_ns: Optional[int],
    ) -> None:
        for name, value, bits in (
            ("wr_id", wr_id, 64),
            ("status", status, 32),
            ("opcode", opcode, 32),
            ("byte_len", byte_len, 32),
            ("imm", imm or 0, 32),
            ("vendor_error", vendor_error, 32),
        ):
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name} of a completion is {value}; expected a number of {bits} bits")
        with self._said:
            # Ignore a queue pair that has been destroyed.
            if self._pairs.get(qp.handle) is not qp:
                return
            now = now_ns()
            if self._first_ns is None:
                self._first_ns = now
            earliest = now
            if earliest_ns is not None:
                earliest = min(earliest_ns, now)
            elif self._turn.polling == threading.get_ident() and self._turn.polled_ns is not None:
                earliest = self._turn.polled_ns
            left = self._posted.get(qp.handle, 0) - 1
            self._posted[qp.handle] = max(left, 0)
            if left <= 0:
                self._names[qp.handle] = set()
            completion = verbs_pb2.Completion(
                qp=qp.handle, wr_id=wr_id, status=status, opcode=opcode, byte_len=byte_len, vendor_error=vendor_error
            )
            if imm is not None:
                completion.imm = imm
            self._put(earliest, now, event=verbs_pb2.Event(completion=completion))

    def reported(self, name: str, qp: Optional[QueuePair]) -> None:
        if not name.startswith("IBV_EVENT_"):
            raise ValueError(f'an event is named as libibverbs names it, such as "IBV_EVENT_QP_FATAL", not {name!r}')
        with self._said:
            handle = qp.handle if qp is not None else 0
            if handle and self._pairs.get(handle) is not qp:
                return
            now = now_ns()
            self._put(now, now, event=verbs_pb2.Event(async_event=verbs_pb2.AsyncEvent(name=name, qp=handle)))
        if name == "IBV_EVENT_DEVICE_FATAL":
            self.device_gone("the device reported IBV_EVENT_DEVICE_FATAL")

    def device_gone(self, why: str) -> None:
        self.end(grpc.StatusCode.UNAVAILABLE, f"the device {self.device.name} is gone: {why}")

    def end(self, code: Optional[grpc.StatusCode] = None, text: str = "") -> None:
        """Ends the stream after the queued responses. The first reason wins."""
        if code is not None and self.why is None:
            self.why = (code, text)
        try:
            self.out.put_nowait(None)
        except queue.Full:
            self.ended.set()

    # Commands.

    def _poll(self) -> None:
        begun = now_ns()
        self._turn.polling = threading.get_ident()
        try:
            self._call(self.device.poll)
        finally:
            self._turn.polling = None
            self._turn.polled_ns = begun

    def look(self) -> None:
        """Polls for completions between commands."""
        with self._commands:
            self._poll()

    def execute(self, request: agent_pb2.SessionRequest) -> None:
        """Executes a command and queues its response."""
        with self._commands:
            self._poll()
            self._first_ns = None
            begun = now_ns()
            try:
                reply = self._answer(request.command)
            except Refused as refused:
                reply = verbs_pb2.Reply(refused=verbs_pb2.Refused(errno=refused.errno, text=refused.text))
            done = self._first_ns if self._first_ns is not None else now_ns()
            self._poll()
            with self._said:
                self._put(begun, done, answer=agent_pb2.Answer(number=request.number, reply=reply))

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Refused:
            raise
        except Exception as error:
            traceback.print_exc()
            text = f"{type(self.device).__name__}.{method.__name__} raised {type(error).__name__}: {error}"
            raise AgentFault(text) from error

    def _made(self, made: Any, kind: type, method: str) -> Any:
        if not isinstance(made, kind):
            raise AgentFault(f"{type(self.device).__name__}.{method} gave {made!r}; expected a {kind.__name__}")
        return made

    def _new_handle(self) -> int:
        self._last_handle += 1
        return self._last_handle

    def _answer(self, command: verbs_pb2.Command) -> verbs_pb2.Reply:
        kind = command.WhichOneof("kind")
        if kind is None:
            raise Refused(
                "the command is empty or of a kind that this agent does not know; expected one of "
                "verbatim.agent.v1.Command: agent and tester must be of one version"
            )
        asked = getattr(command, kind)
        reply = getattr(self, "_" + kind)(asked)
        return reply if reply is not None else verbs_pb2.Reply(done=verbs_pb2.Done())

    def _open(self, _: Any) -> verbs_pb2.Reply:
        info: DeviceInfo = self._made(self._call(self.device.open), DeviceInfo, "open")
        values = {name: value for name, value in vars(info).items() if name not in ("gids", "capabilities")}
        gids = [verbs_pb2.Gid(index=gid.index, gid=gid.gid, kind=gid.kind) for gid in info.gids]
        try:
            if info.capabilities is not None:
                values["capabilities"] = verbs_pb2.Capabilities(**vars(info.capabilities))
            opened = verbs_pb2.Opened(device=self.device.name, host=self.host, gids=gids, **values)
        except (TypeError, ValueError) as error:
            raise AgentFault(f"{type(self.device).__name__}.open gave what the protocol cannot hold: {error}") from error
        return verbs_pb2.Reply(opened=opened)

    def _register_memory(self, asked: Any) -> verbs_pb2.Reply:
        pages = lambda length: (length + PAGE - 1) // PAGE * PAGE  # noqa: E731
        if asked.length == 0:
            raise Refused("memory of 0 bytes cannot be registered; ask for 1 or more")
        held = sum(pages(memory.length) for memory in self._memory.values())
        if held + pages(asked.length) > self.limits.memory:
            raise Refused(
                f"{asked.length} bytes of memory are more than is left of this session's {self.limits.memory} "
                f"(in use: {held}, in whole pages of {PAGE}); deregister some"
            )
        made = self._call(self.device.register_memory, asked.length, _access(asked.access))
        memory: Memory = self._made(made, Memory, "register_memory")
        memory.handle = self._new_handle()
        self._memory[memory.handle] = memory
        return verbs_pb2.Reply(
            memory=verbs_pb2.Memory(
                memory=memory.handle, address=memory.address, l_key=memory.l_key, r_key=memory.r_key
            )
        )

    def _create_qp(self, asked: Any) -> verbs_pb2.Reply:
        service = _one_of(Service, asked.service, "service of a queue pair")
        if len(self._pairs) >= self.limits.queue_pairs:
            raise Refused(f"this session has {len(self._pairs)} queue pairs, as many as it may have; destroy one")
        for name in ("send_depth", "receive_depth"):
            _bounded(name, getattr(asked, name), self.limits.queue_depth, 1)
        made = self._call(self.device.create_qp, service, asked.send_depth, asked.receive_depth)
        qp: QueuePair = self._made(made, QueuePair, "create_qp")
        if not 0 < qp.qpn < 1 << 24:
            raise AgentFault(f"{type(self.device).__name__}.create_qp gave a queue pair of number {qp.qpn}")
        handle = self._new_handle()
        qp.handle, qp._session = handle, self
        with self._said:
            self._pairs[handle], self._services[handle] = qp, service
            self._posted[handle], self._names[handle] = 0, set()
        return verbs_pb2.Reply(qp=verbs_pb2.Qp(qp=handle, qpn=qp.qpn))

    def _pair(self, handle: int) -> QueuePair:
        if handle not in self._pairs:
            raise Refused(f"this session has no queue pair {handle}; it has {_handles(self._pairs)}")
        return self._pairs[handle]

    def _modify_qp(self, asked: Any) -> None:
        state = _one_of(QpState, asked.state, "state of a queue pair")
        attributes = _attributes(asked.attributes)
        self._call(self.device.modify_qp, self._pair(asked.qp), state, attributes)
        if state == QpState.RESET:
            with self._said:
                self._posted[asked.qp], self._names[asked.qp] = 0, set()

    def _query_qp(self, asked: Any) -> verbs_pb2.Reply:
        of = self._call(self.device.query_qp, self._pair(asked.qp))
        return verbs_pb2.Reply(status=verbs_pb2.QpStatus(state=int(of.state), sq_psn=of.sq_psn, rq_psn=of.rq_psn))

    def _slice(self, asked: Any) -> Optional[Slice]:
        if asked.memory not in self._memory:
            raise Refused(f"this session has no memory {asked.memory}; it has {_handles(self._memory)}")
        memory = self._memory[asked.memory]
        end = asked.offset + asked.length
        if end > memory.length:
            raise Refused(
                f"bytes {asked.offset}..{end} are not inside memory {asked.memory}, which has {memory.length}"
            )
        return Slice(memory, asked.offset, asked.length) if asked.length else None

    def _local(self, asked: Any) -> Optional[Slice]:
        return self._slice(asked.local) if asked.HasField("local") else None

    def _post(self, method: Callable[..., None], qp: QueuePair, asked: Any, request: Any) -> None:
        # Count the request before the call, because the request may complete within the call.
        with self._said:
            self._posted[qp.handle] += 1
            if asked.HasField("local"):
                self._names[qp.handle].add(asked.local.memory)
        try:
            self._call(method, qp, request)
        except Refused:
            with self._said:
                self._posted[qp.handle] = max(0, self._posted[qp.handle] - 1)
            raise

    def _post_send(self, asked: Any) -> None:
        operation = _one_of(Operation, asked.operation, "operation of a send request")
        qp = self._pair(asked.qp)
        datagram = self._services[asked.qp] == Service.UD
        if datagram and not asked.HasField("address"):
            raise Refused(
                "a send request of a UD queue pair has no address; give address, remote_qpn and remote_qkey"
            )
        if not datagram and asked.HasField("address"):
            raise Refused(
                "a send request of an RC queue pair has an address; leave it out: the queue pair knows where to"
            )
        request = SendRequest(
            asked.wr_id,
            operation,
            self._local(asked),
            asked.signaled,
            asked.solicited,
            asked.fence,
            asked.remote_address,
            asked.r_key,
            asked.compare,
            asked.swap_add,
            asked.imm,
            _address(asked.address) if datagram else None,
            _bounded("remote_qpn", asked.remote_qpn, 0xFF_FFFF),
            asked.remote_qkey,
        )
        self._post(self.device.post_send, qp, asked, request)

    def _post_receive(self, asked: Any) -> None:
        qp = self._pair(asked.qp)
        self._post(self.device.post_receive, qp, asked, ReceiveRequest(asked.wr_id, self._local(asked)))

    def _read_memory(self, asked: Any) -> verbs_pb2.Reply:
        if not asked.HasField("from"):
            raise Refused("read_memory does not say what to read; give from")
        place = self._slice(getattr(asked, "from"))
        data = b""
        if place is not None:
            self._check_transfer(place.length)
            data = bytes(self._call(self.device.read_memory, place.memory, place.offset, place.length))
            if len(data) != place.length:
                raise AgentFault(f"{type(self.device).__name__}.read_memory gave {len(data)} bytes of {place.length}")
        return verbs_pb2.Reply(bytes=verbs_pb2.Bytes(bytes=data))

    def _write_memory(self, asked: Any) -> None:
        self._check_transfer(len(asked.bytes))
        place = self._slice(verbs_pb2.Slice(memory=asked.memory, offset=asked.offset, length=len(asked.bytes)))
        if place is not None:
            self._call(self.device.write_memory, place.memory, place.offset, bytes(asked.bytes))

    @staticmethod
    def _check_transfer(length: int) -> None:
        if length > MAX_TRANSFER:
            raise Refused(f"{length} bytes are more than one command may read or write, {MAX_TRANSFER}; use several")

    def _destroy_qp(self, asked: Any) -> None:
        qp = self._pair(asked.qp)
        self._call(self.device.destroy_qp, qp)
        self._forget(qp)

    def _forget(self, qp: QueuePair) -> None:
        with self._said:
            for held in (self._pairs, self._services, self._posted, self._names):
                held.pop(qp.handle, None)

    def _deregister_memory(self, asked: Any) -> None:
        if asked.memory not in self._memory:
            raise Refused(f"this session has no memory {asked.memory}; it has {_handles(self._memory)}")
        for handle, names in self._names.items():
            if asked.memory in names:
                raise Refused(
                    f"memory {asked.memory} is named by requests on queue pair {handle} that have not completed, or whose "
                    "success is not signalled; destroy the queue pair first, or move it to ERR and let them complete"
                )
        self._call(self.device.deregister_memory, self._memory[asked.memory])
        del self._memory[asked.memory]

    def _destroy_all(self, _: Any) -> None:
        for qp in list(self._pairs.values()):
            self._call(self.device.destroy_qp, qp)
            self._forget(qp)
        for memory in list(self._memory.values()):
            self._call(self.device.deregister_memory, memory)
            del self._memory[memory.handle]

    def destroy(self) -> None:
        """Destroys all objects of the session, queue pairs first. Continues after a failure."""
        with self._commands:
            for qp in list(self._pairs.values()):
                self._quietly(self.device.destroy_qp, qp)
                self._forget(qp)
            for memory in self._memory.values():
                self._quietly(self.device.deregister_memory, memory)
            self._memory.clear()
            self._quietly(self.device.close)

    @staticmethod
    def _quietly(method: Callable[..., Any], *arguments: Any) -> None:
        try:
            method(*arguments)
        except Exception:
            traceback.print_exc()
