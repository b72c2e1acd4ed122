"""The service ``verbatim.agent.v1``: the sessions of one device."""

from __future__ import annotations

import ipaddress
import os
import queue
import signal
import socket
import stat
import sys
import threading
from concurrent import futures
from typing import Iterator, Optional

import grpc

from verbatim_client._proto.verbatim.agent.v1 import agent_pb2, agent_pb2_grpc, verbs_pb2

from .device import Device, now_ns
from .session import AgentFault, Limits, Session, Turn
from .tls import Files, ListenError, Tls

#: The largest message of the protocol, in bytes.
LARGEST_MESSAGE = 32 << 20
#: Longest silence of a client in seconds: before its first command, and later.
FIRST = 10.0
IDLE = 1800.0
#: Interval in seconds between checks of a session's certificate.
LOOK = 5.0

_OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    # Detects a tester whose connection broke silently.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A tester pings every 5 s. Without these two options gRPC treats the pings as an attack and closes the connection.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
]


def _log(line: str) -> None:
    try:
        print(f"agent: {line}", file=sys.stderr, flush=True)
    except OSError:
        pass  # The process that reads stderr may have ended.


def _peer(context: grpc.ServicerContext) -> str:
    """Returns the peer's address, for the log."""
    peer = context.peer() or ""
    return peer.partition(":")[2] if peer.startswith("ipv") else "somebody on this host"


class _Service(agent_pb2_grpc.AgentServiceServicer):
    def __init__(self, device: Device, limits: Limits, files: Optional[Files]) -> None:
        self.device = device
        self.limits = limits
        self.files = files
        self.turn = Turn()
        self.seats = threading.Lock()
        self.sessions: list[Session] = []
        self.taken = 0
        self.stopped = False
        system = os.uname()
        self.version = "python"
        self.host = f"{system.sysname} {system.release}, agent of verbatim_client for Python"

    def _why_refused(self, context: grpc.ServicerContext) -> Optional[str]:
        if self.files is None:
            return None
        shown = context.auth_context().get("x509_pem_cert") or [None]
        return self.files.refusal(shown[0])

    def _admit(self, context: grpc.ServicerContext) -> None:
        why = self._why_refused(context)
        if why is not None:
            _log(f"{_peer(context)}: not let in: {why}")
            context.abort(grpc.StatusCode.UNAUTHENTICATED, why)

    def _sit(self) -> bool:
        with self.seats:
            free = self.taken < self.limits.sessions
            self.taken += free
            return free

    def GetAgent(self, _: agent_pb2.GetAgentRequest, context: grpc.ServicerContext) -> agent_pb2.GetAgentResponse:
        self._admit(context)
        return agent_pb2.GetAgentResponse(
            version=self.version,
            devices=[self.device.name],
            sessions=self.taken,
            max_sessions=self.limits.sessions,
            host=socket.gethostname(),
        )

    def Session(
        self, requests: Iterator[agent_pb2.SessionRequest], context: grpc.ServicerContext
    ) -> Iterator[agent_pb2.SessionResponse]:
        self._admit(context)
        # A tester waits for the headers before its first command, so send them at once.
        context.send_initial_metadata(())
        if not self._sit():
            yield from self._turn_away(requests, context, self.limits.sessions)
            return
        session = Session(self.device, self.limits, self.host, self.turn)
        with self.seats:
            self.sessions.append(session)
            self.device._sessions = tuple(self.sessions)
        _log(f"{_peer(context)}: a session begins")
        reader = threading.Thread(target=self._read, args=(session, requests), name="commands", daemon=True)
        reader.start()
        if self.device.poll_interval is not None:
            threading.Thread(target=self._look, args=(session, self.device.poll_interval), daemon=True).start()
        try:
            looked = now_ns()
            while True:
                # End the session if its certificate was revoked or has expired.
                if now_ns() - looked > LOOK * 1e9:
                    looked, why = now_ns(), self._why_refused(context)
                    if why is not None:
                        session.why = session.why or (grpc.StatusCode.UNAUTHENTICATED, why)
                        break
                try:
                    response = session.out.get(timeout=1.0)
                except queue.Empty:
                    patience = IDLE if session.begun else FIRST
                    if session.ended.is_set() or now_ns() - session.heard_ns > patience * 1e9:
                        break
                    continue
                if response is None:
                    break
                yield response
        finally:
            # Destroy the session's objects before the stream ends: the stream's end tells the client that they are
            # destroyed.
            session.ended.set()
            session.destroy()
            with self.seats:
                self.sessions.remove(session)
                self.device._sessions = tuple(self.sessions)
                self.taken -= 1
            _log(f"{_peer(context)}: a session ended, and what it made is destroyed{': ' + session.why[1] if session.why else ''}")
        if session.why is not None:
            context.abort(*session.why)

    @staticmethod
    def _turn_away(
        requests: Iterator[agent_pb2.SessionRequest], context: grpc.ServicerContext, seats: int
    ) -> Iterator[agent_pb2.SessionResponse]:
        text = (
            "the agent has a session, and may have one at a time; end it first"
            if seats == 1
            else f"the agent has {seats} sessions, as many as it may have at a time; end one first"
        )
        _log(f"no session: {text}")
        late = threading.Timer(FIRST, context.cancel)
        late.daemon = True
        late.start()
        begun = now_ns()
        try:
            for request in requests:
                refused = verbs_pb2.Reply(refused=verbs_pb2.Refused(text=text))
                yield agent_pb2.SessionResponse(
                    at=verbs_pb2.Instant(earliest_ns=begun, latest_ns=now_ns()),
                    answer=agent_pb2.Answer(number=request.number, reply=refused),
                )
                break
        finally:
            late.cancel()
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)

    @staticmethod
    def _read(session: Session, requests: Iterator[agent_pb2.SessionRequest]) -> None:
        try:
            for request in requests:
                if session.ended.is_set():
                    break
                session.heard_ns, session.begun = now_ns(), True
                session.execute(request)
        except AgentFault as fault:
            session.end(grpc.StatusCode.INTERNAL, f"the agent is at fault, not the device: {fault}")
            return
        except Exception:  # grpc: the client or its connection has ended.
            session.ended.set()
        session.end()

    @staticmethod
    def _look(session: Session, interval: float) -> None:
        while not session.ended.wait(interval):
            try:
                session.look()
            except Exception as fault:
                session.end(grpc.StatusCode.INTERNAL, f"the agent is at fault, not the device: {fault}")
                return

    def stop(self) -> None:
        self.stopped = True
        for session in tuple(self.sessions):
            session.end(grpc.StatusCode.UNAVAILABLE, "the agent was told to stop; start it again")


class Server:
    """A serving agent: ``with Server(device, listen) as server: ...``. The constructor starts listening."""

    def __init__(
        self, device: Device, listen: str = "127.0.0.1:7000", tls: Optional[Tls] = None, limits: Limits = Limits()
    ) -> None:
        if not isinstance(device, Device):
            raise TypeError(f"expected a verbatim_client.agent.Device, not {device!r}")
        if limits.sessions < 1:
            raise ValueError(f"Limits.sessions is {limits.sessions}; expected 1 or more")
        files = None if tls is None or listen.startswith("unix:") else Files(tls)
        self._service = _Service(device, limits, files)
        self._server = grpc.server(
            # Each session needs a worker. Refused sessions and GetAgent calls need workers as well.
            futures.ThreadPoolExecutor(max_workers=16 + limits.sessions, thread_name_prefix="agent"), options=_OPTIONS
        )
        agent_pb2_grpc.add_AgentServiceServicer_to_server(self._service, self._server)
        self._path: Optional[str] = None
        #: The address at which the server listens, with the actual port.
        self.address = self._bind_unix(listen, tls) if listen.startswith("unix:") else self._bind_tcp(listen, files)
        self._server.start()

    def _bind_unix(self, listen: str, tls: Optional[Tls]) -> str:
        path = listen[len("unix:") :]
        if not path:
            raise ListenError("no path after unix:; expected unix:PATH, such as unix:/tmp/agent.sock")
        if tls is not None:
            raise ListenError(f"{listen} is a unix socket, which has no TLS: leave tls out")
        path = os.path.abspath(path)
        if len(path.encode()) > 107:
            raise ListenError(f"{path} is too long for a unix socket; expected at most 107 bytes")
        try:
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise ListenError(f"{path} is there and is no socket; remove it, or name another one")
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
            raise ListenError(f"somebody listens on {listen} already; stop that one, or choose another")
        except FileNotFoundError:
            pass
        except OSError:
            os.unlink(path)  # The socket's process has ended.
        # Owner and group may connect.
        before = os.umask(0o117)
        try:
            bound = self._server.add_insecure_port(f"unix:{path}")
        except RuntimeError:
            bound = 0
        finally:
            os.umask(before)
        if not bound:
            raise ListenError(f"cannot listen on {listen}; expected a directory that exists and that this user may write")
        self._path = path
        return f"unix:{path}"

    def _bind_tcp(self, listen: str, files: Optional[Files]) -> str:
        host, _, port = listen.rpartition(":")
        try:
            ip = ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
            if not 0 <= int(port) <= 65535 or (ip.version == 6) != host.startswith("["):
                raise ValueError
        except ValueError:
            raise ListenError(
                f"{listen!r} is no place to listen; expected unix:PATH or IP:PORT, such as 127.0.0.1:7000 or [::1]:7000; "
                "a name is not looked up, give its address"
            ) from None
        if files is None and not ip.is_loopback:
            raise ListenError(
                f"{listen} can be reached from other hosts, and whoever reaches the agent may use the device: such an "
                f"address needs tls=Tls(cert, key, client_ca) (`verbatim pki init DIR --agent {ip}` makes them); without "
                "TLS listen on a loopback address or on unix:PATH"
            )
        try:
            if files is None:
                bound = self._server.add_insecure_port(listen)
            else:
                bound = self._server.add_secure_port(listen, files.credentials())
        except RuntimeError:
            bound = 0
        if not bound:
            raise ListenError(f"cannot listen on {listen}: is somebody there already, and is it an address of this host?")
        return f"{host}:{bound}"

    def stop(self, patience: float = 3.0) -> None:
        """Ends all sessions, destroys their objects, and stops the server."""
        self._service.stop()
        self._server.stop(patience).wait()
        if self._path is not None:
            try:
                os.unlink(self._path)
            except FileNotFoundError:
                pass
            self._path = None

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(
    device: Device, listen: str = "127.0.0.1:7000", tls: Optional[Tls] = None, limits: Limits = Limits()
) -> None:
    """Serves until SIGTERM or SIGINT, then ends all sessions in order. Call this from the main thread."""
    # Use a pipe: setting an event takes a lock, and a handler that interrupts another handler must not wait for a lock.
    told, tell = os.pipe()
    os.set_blocking(tell, False)

    def handler(*_: object) -> None:
        try:
            os.write(tell, b"!")
        except BlockingIOError:
            pass  # The pipe is full of signals already.

    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with Server(device, listen, tls, limits) as server:
            _log(f"listening on {server.address}, device {device.name}")
            os.read(told, 1)
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)
        os.close(told)
        os.close(tell)
