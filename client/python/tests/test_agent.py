"""The agent library: each command of a session, and the product's tests of a whole device behind an agent."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Optional

import grpc
import pytest

from verbatim_client._proto.verbatim.agent.v1 import agent_pb2, agent_pb2_grpc, verbs_pb2
from verbatim_client.agent import (
    Device,
    DeviceInfo,
    Gid,
    Limits,
    ListenError,
    Opcode,
    QpState,
    QpStatus,
    QueuePair,
    Server,
    Status,
    Tls,
    now_ns,
)

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "client" / "python"
EXAMPLES = PYTHON / "examples"
PATIENCE = 20.0


def binary(name: str) -> Path:
    path = Path(os.environ.get("VERBATIM_BIN") or ROOT / "target" / "debug") / name
    if not path.exists():
        pytest.skip(f"{path} is not there: `cargo build -p verbatim`, or say VERBATIM_BIN=DIR")
    return path


class Fake(Device):
    """A device that completes requests at once, or on command of the test."""

    name = "fake0"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.at_once = True
        self.closed = threading.Event()
        self.pair: Optional[QueuePair] = None
        self.made: list[QueuePair] = []

    def open(self) -> DeviceInfo:
        return DeviceInfo(gids=[Gid.of_ip(0, "10.0.0.1")], firmware="7")

    def close(self) -> None:
        self.calls.append("close")
        self.closed.set()

    def deregister_memory(self, memory: Any) -> None:
        self.calls.append("deregister")

    def create_qp(self, service: Any, send_depth: int, receive_depth: int) -> QueuePair:
        self.pair = QueuePair(0x11)
        self.made.append(self.pair)
        return self.pair

    def modify_qp(self, qp: QueuePair, state: Any, attributes: Any) -> None:
        self.calls.append(f"{state.name} {sorted(attributes.named())}")

    def query_qp(self, qp: QueuePair) -> QpStatus:
        return QpStatus(QpState.RTS, 1, 2)

    def destroy_qp(self, qp: QueuePair) -> None:
        self.calls.append("destroy")

    def post_send(self, qp: QueuePair, request: Any) -> None:
        if request.imm == 0xBAD:
            raise ZeroDivisionError("of the agent")
        if self.at_once:
            self.complete(qp, request.wr_id)
        if request.local is not None:
            self.calls.append(f"post {request.local.offset}..{request.local.offset + request.local.length}")

    def post_receive(self, qp: QueuePair, request: Any) -> None:
        pass


class Client:
    """A client with one session."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.requests: "queue.Queue[Optional[agent_pb2.SessionRequest]]" = queue.Queue()
        self.stub = agent_pb2_grpc.AgentServiceStub(channel)
        self.call = self.stub.Session(iter(self.requests.get, None), timeout=PATIENCE)
        self.number = 0

    def send(self, **kind: Any) -> int:
        self.number += 1
        self.requests.put(agent_pb2.SessionRequest(number=self.number, command=verbs_pb2.Command(**kind)))
        return self.number

    def ask(self, **kind: Any) -> tuple[list[verbs_pb2.Event], verbs_pb2.Reply]:
        """Sends a command. Returns the response, and the events before the response."""
        number, events = self.send(**kind), []
        before = now_ns()
        for response in self.call:
            assert response.at.earliest_ns <= response.at.latest_ns <= now_ns()
            if response.WhichOneof("kind") == "answer":
                assert response.answer.number == number and response.at.latest_ns >= before - PATIENCE * 1e9
                return events, response.answer.reply
            events.append(response.event)
        raise AssertionError("the stream ended")

    def refused(self, **kind: Any) -> str:
        reply = self.ask(**kind)[1]
        assert reply.WhichOneof("kind") == "refused", reply
        assert reply.refused.errno == 0
        return reply.refused.text

    def make(self) -> tuple[int, int]:
        """Makes memory and a queue pair; returns their handles."""
        memory = self.ask(register_memory=verbs_pb2.RegisterMemory(length=100))[1].memory
        qp = self.ask(create_qp=verbs_pb2.CreateQp(service=1, send_depth=4, receive_depth=4))[1].qp
        return memory.memory, qp.qp

    def leave(self) -> None:
        """Ends the session, and reads the stream to its end."""
        self.requests.put(None)
        for _ in self.call:
            pass


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def channel(fake: Fake, tmp_path: Path) -> Iterator[grpc.Channel]:
    with Server(fake, f"unix:{tmp_path}/a.sock") as server:
        assert (tmp_path / "a.sock").stat().st_mode & 0o777 == 0o660
        with grpc.insecure_channel(server.address, options=[("grpc.default_authority", "localhost")]) as channel:
            yield channel
    assert not (tmp_path / "a.sock").exists()


def test_the_headers_come_before_the_first_command(channel: grpc.Channel) -> None:
    client = Client(channel)
    # Wait for the headers. No command has been sent.
    client.call.initial_metadata()
    told = client.stub.GetAgent(agent_pb2.GetAgentRequest())
    assert (list(told.devices), told.sessions, told.max_sessions) == (["fake0"], 1, 1)
    client.leave()


def test_open_tells_what_the_device_is(channel: grpc.Channel) -> None:
    client = Client(channel)
    opened = client.ask(open=verbs_pb2.Open())[1].opened
    assert (opened.device, opened.firmware, opened.port, opened.port_state) == ("fake0", "7", 1, 4)
    assert opened.gids[0].gid == bytes(10) + b"\xff\xff\x0a\0\0\x01" and opened.gids[0].kind == "RoCE v2"
    client.leave()


def test_completions_come_before_the_answer_of_the_command_that_made_them(channel: grpc.Channel) -> None:
    client = Client(channel)
    memory, qp = client.make()
    local = verbs_pb2.Slice(memory=memory, offset=10, length=20)
    events, reply = client.ask(post_send=verbs_pb2.PostSend(qp=qp, wr_id=1 << 63, operation=1, local=local))
    assert [(event.completion.qp, event.completion.wr_id) for event in events] == [(qp, 1 << 63)]
    assert reply.WhichOneof("kind") == "done"
    client.leave()


def test_any_thread_may_complete_and_report(channel: grpc.Channel, fake: Fake) -> None:
    client = Client(channel)
    fake.at_once = False
    _, qp = client.make()
    client.ask(post_send=verbs_pb2.PostSend(qp=qp, wr_id=5, operation=1))

    def work() -> None:
        assert fake.pair is not None
        fake.report("IBV_EVENT_COMM_EST", fake.pair)
        fake.complete(fake.pair, 5, Status.RNR_RETRY_EXC_ERR, Opcode.SEND, imm=0, earliest_ns=1)

    thread = threading.Thread(target=work)
    thread.start()
    first, second = next(client.call), next(client.call)
    thread.join()
    assert (first.event.async_event.name, first.event.async_event.qp) == ("IBV_EVENT_COMM_EST", qp)
    completion = second.event.completion
    assert (completion.status, completion.HasField("imm"), second.at.earliest_ns) == (13, True, 1)
    client.leave()


def test_a_sign_of_life_is_given_without_a_word_to_the_device(channel: grpc.Channel, fake: Fake) -> None:
    client = Client(channel)
    assert client.refused(query_qp=verbs_pb2.QueryQp(qp=0)) == "this session has no queue pair 0; it has none"
    assert fake.calls == []
    client.leave()


def test_wrong_commands_are_refused_in_words_and_the_session_goes_on(channel: grpc.Channel) -> None:
    client = Client(channel)
    memory, qp = client.make()
    pb = verbs_pb2

    def modify(**attributes: Any) -> str:
        return client.refused(modify_qp=pb.ModifyQp(qp=qp, state=2, attributes=pb.QpAttributes(**attributes)))

    assert modify(rnr_retry=8) == "rnr_retry is 8; expected 0..=7"
    assert modify(path_mtu=0) == "path_mtu is 0; expected 1..=5"
    assert modify(sq_psn=1 << 24) == "sq_psn is 16777216; expected 0..=16777215"
    assert modify(address=pb.AddressVector(dgid=b"x")) == "dgid has 1 bytes; expected 16, or none"
    assert "no dgid" in modify(address=pb.AddressVector(hop_limit=1))
    assert "no state" in client.refused(modify_qp=pb.ModifyQp(qp=qp, state=8))
    assert "no operation" in client.refused(post_send=pb.PostSend(qp=qp))
    assert "no service" in client.refused(create_qp=pb.CreateQp(send_depth=1, receive_depth=1))
    assert "send_depth is 0" in client.refused(create_qp=pb.CreateQp(service=1, receive_depth=1))
    assert "0 bytes" in client.refused(register_memory=pb.RegisterMemory())
    assert "more than is left" in client.refused(register_memory=pb.RegisterMemory(length=1 << 31))
    beyond = pb.Slice(memory=memory, offset=90, length=11)
    assert "bytes 90..101 are not inside memory" in client.refused(post_receive=pb.PostReceive(qp=qp, local=beyond))
    assert "give from" in client.refused(read_memory=pb.ReadMemory())
    assert "no memory 77" in client.refused(deregister_memory=pb.DeregisterMemory(memory=77))
    assert "has an address" in client.refused(post_send=pb.PostSend(qp=qp, operation=1, address=pb.AddressVector()))
    assert "of a kind that this agent does not know" in client.refused()
    client.ask(write_memory=pb.WriteMemory(memory=memory, offset=98, bytes=b"ab"))
    read = pb.ReadMemory(**{"from": pb.Slice(memory=memory, offset=97, length=3)})
    assert client.ask(read_memory=read)[1].bytes.bytes == b"\0ab"
    client.leave()


def test_memory_that_a_request_may_still_use_stays(channel: grpc.Channel, fake: Fake) -> None:
    client = Client(channel)
    fake.at_once = False
    memory, qp = client.make()
    local = verbs_pb2.Slice(memory=memory, length=8)
    client.ask(post_send=verbs_pb2.PostSend(qp=qp, wr_id=1, operation=1, local=local))
    deregister = verbs_pb2.DeregisterMemory(memory=memory)
    assert "have not completed" in client.refused(deregister_memory=deregister)
    client.ask(destroy_qp=verbs_pb2.DestroyQp(qp=qp))
    assert client.ask(deregister_memory=deregister)[1].WhichOneof("kind") == "done"
    client.leave()


@pytest.mark.parametrize("end", ["leaves", "is lost"])
def test_at_the_end_all_is_destroyed_and_the_seat_is_free(channel: grpc.Channel, fake: Fake, end: str) -> None:
    client = Client(channel)
    client.make()
    if end == "leaves":
        client.leave()
    else:
        client.call.cancel()
    assert fake.closed.wait(PATIENCE)
    assert fake.calls == ["destroy", "deregister", "close"]
    deadline = time.monotonic() + PATIENCE
    while client.stub.GetAgent(agent_pb2.GetAgentRequest()).sessions:
        assert time.monotonic() < deadline
    again = Client(channel)
    assert again.ask(open=verbs_pb2.Open())[1].opened.device == "fake0"
    again.leave()


def test_a_second_session_is_told_why_not(channel: grpc.Channel) -> None:
    first, second = Client(channel), None
    first.ask(open=verbs_pb2.Open())
    second = Client(channel)
    assert "one at a time" in second.refused(open=verbs_pb2.Open())
    with pytest.raises(grpc.RpcError) as error:
        next(second.call)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    first.leave()


def test_sessions_share_the_device_and_each_has_what_it_made(fake: Fake, tmp_path: Path) -> None:
    with Server(fake, f"unix:{tmp_path}/a.sock", limits=Limits(sessions=2)) as server:
        with grpc.insecure_channel(server.address, options=[("grpc.default_authority", "localhost")]) as channel:
            first, second = Client(channel), Client(channel)
            (_, one), (_, two) = first.make(), second.make()
            assert one == two, "handles are a session's own"
            told = first.stub.GetAgent(agent_pb2.GetAgentRequest())
            assert (told.sessions, told.max_sessions) == (2, 2)
            third = Client(channel)
            assert "2 sessions, as many as it may have" in third.refused(open=verbs_pb2.Open())
            # A completion goes to the session that made the queue pair. An event of the device goes to both sessions.
            fake.report("IBV_EVENT_PORT_ERR")
            fake.complete(fake.made[1], 7, 0, 0)
            assert next(first.call).event.async_event.name == "IBV_EVENT_PORT_ERR"
            assert next(second.call).event.async_event.name == "IBV_EVENT_PORT_ERR"
            assert next(second.call).event.completion.wr_id == 7
            second.leave()
            events, _ = first.ask(open=verbs_pb2.Open())
            assert events == [], "nothing of the other's"
            again = Client(channel)
            assert again.ask(open=verbs_pb2.Open())[1].opened.device == "fake0"
            again.leave()
            first.leave()
    with pytest.raises(ValueError, match="Limits.sessions"):
        Server(fake, f"unix:{tmp_path}/a.sock", limits=Limits(sessions=0))


def test_a_fault_of_the_agent_ends_the_session_and_is_no_answer_of_the_device(channel: grpc.Channel) -> None:
    client = Client(channel)
    _, qp = client.make()
    client.send(post_send=verbs_pb2.PostSend(qp=qp, operation=1, imm=0xBAD))
    with pytest.raises(grpc.RpcError) as error:
        next(client.call)
    assert error.value.details() == (
        "the agent is at fault, not the device: Fake.post_send raised ZeroDivisionError: of the agent"
    )


def test_a_device_that_is_gone_ends_the_session_with_the_reason(channel: grpc.Channel, fake: Fake) -> None:
    client = Client(channel)
    client.make()
    fake.report("IBV_EVENT_DEVICE_FATAL")
    assert next(client.call).event.async_event.name == "IBV_EVENT_DEVICE_FATAL"
    with pytest.raises(grpc.RpcError) as error:
        next(client.call)
    assert "the device fake0 is gone" in error.value.details()


def test_a_device_that_is_polled_tells_since_when_it_may_have_happened(tmp_path: Path) -> None:
    class Polled(Fake):
        poll_interval = 0.001
        due: list[int] = []
        polls = 0

        def post_send(self, qp: QueuePair, request: Any) -> None:
            self.due.append(request.wr_id)

        def poll(self) -> None:
            self.polls += 1
            while self.polls > 5 and self.due:
                assert self.pair is not None
                self.complete(self.pair, self.due.pop())

    with Server(Polled(), f"unix:{tmp_path}/a.sock") as server, grpc.insecure_channel(
        server.address, options=[("grpc.default_authority", "localhost")]
    ) as channel:
        client = Client(channel)
        _, qp = client.make()
        client.send(post_send=verbs_pb2.PostSend(qp=qp, wr_id=9, operation=1))
        responses = [next(client.call), next(client.call)]
        event = next(response for response in responses if response.WhichOneof("kind") == "event")
        assert event.event.completion.wr_id == 9 and event.at.earliest_ns < event.at.latest_ns
        client.leave()


@pytest.mark.parametrize(
    ("listen", "text"),
    [
        ("unix:", "no path after unix:"),
        ("localhost:7000", "a name is not looked up"),
        ("127.0.0.1", "expected unix:PATH or IP:PORT"),
        ("127.0.0.1:65536", "expected unix:PATH or IP:PORT"),
        ("::1:70", "expected unix:PATH or IP:PORT"),
        ("10.0.0.1:7000", "can be reached from other hosts"),
        ("unix:/none/of/this", "expected a directory that exists"),
        ("unix:/etc/hosts", "is no socket"),
        ("unix:/tmp/" + "x" * 110, "at most 107 bytes"),
    ],
)
def test_a_place_to_listen_that_cannot_be_is_refused_in_words(fake: Fake, listen: str, text: str) -> None:
    with pytest.raises(ListenError, match=text):
        Server(fake, listen)


def test_a_dead_socket_is_replaced_and_one_that_lives_is_not(fake: Fake, tmp_path: Path) -> None:
    listen = f"unix:{tmp_path}/a.sock"
    with Server(fake, listen), pytest.raises(ListenError, match="somebody listens"):
        Server(Fake(), listen)
    import socket

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(listen[5:])
    with Server(fake, listen):
        pass


def test_what_a_device_gives_is_checked() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Gid(0, b"short")
    with pytest.raises(ValueError, match="active_mtu is a code"):
        DeviceInfo(gids=[Gid.of_ip(0, "fe80::1")], active_mtu=1024)
    with pytest.raises(ValueError, match="at least one GID"):
        DeviceInfo(gids=[])
    with pytest.raises(TypeError, match="Device"):
        Server(object())  # type: ignore[arg-type]
    assert Limits().queue_depth == 4096


def test_over_tls_only_who_has_a_certificate_is_let_in(fake: Fake, tmp_path: Path) -> None:
    pki = tmp_path / "pki"
    subprocess.run([binary("verbatim"), "pki", "init", pki, "--agent", "127.0.0.1"], check=True, stdout=subprocess.PIPE)
    tls = Tls(*(str(pki / name) for name in ("server.pem", "server-key.pem", "ca.pem")))
    with pytest.raises(ListenError, match="a unix socket, which has no TLS"):
        Server(fake, f"unix:{tmp_path}/a.sock", tls)
    with pytest.raises(ListenError, match="cannot be read"):
        Server(fake, "127.0.0.1:0", Tls("none.pem", "none.pem", "none.pem"))
    with Server(fake, "127.0.0.1:0", tls) as server:
        ca, key, chain = ((pki / name).read_bytes() for name in ("ca.pem", "client-key.pem", "client.pem"))
        for credentials, let_in in (
            (grpc.ssl_channel_credentials(ca, key, chain), True),
            (grpc.ssl_channel_credentials(ca), False),
        ):
            with grpc.secure_channel(server.address, credentials) as channel:
                stub = agent_pb2_grpc.AgentServiceStub(channel)
                if let_in:
                    assert stub.GetAgent(agent_pb2.GetAgentRequest(), timeout=PATIENCE).devices == ["fake0"]
                else:
                    with pytest.raises(grpc.RpcError):
                        stub.GetAgent(agent_pb2.GetAgentRequest(), timeout=PATIENCE)


def pki_in(directory: Path, *arguments: str) -> None:
    subprocess.run([binary("verbatim"), "pki", *arguments], check=True, stdout=subprocess.PIPE, cwd=directory)


def asks(address: str, pki: Path, name: str = "client") -> str:
    """Connects with the certificate of `name`. Returns the device, or the reason of the refusal."""
    ca, key, chain = ((pki / file).read_bytes() for file in ("ca.pem", f"{name}-key.pem", f"{name}.pem"))
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, chain)) as channel:
        try:
            return agent_pb2_grpc.AgentServiceStub(channel).GetAgent(agent_pb2.GetAgentRequest(), timeout=PATIENCE).devices[0]
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"


def test_a_revoked_certificate_is_refused_and_ends_its_session_without_a_restart(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pki = tmp_path / "pki"
    pki_in(tmp_path, "init", "pki", "--agent", "127.0.0.1")
    files = [str(pki / name) for name in ("server.pem", "server-key.pem", "ca.pem", "crl.pem")]
    with pytest.raises(ListenError, match="no list of revoked certificates"):
        Server(fake, "127.0.0.1:0", Tls(*files[:3], crl=files[0]))
    monkeypatch.setattr("verbatim_client.agent.server.LOOK", 0.1)
    monkeypatch.setattr("verbatim_client.agent.tls.STANDS", 0.0)
    with Server(fake, "127.0.0.1:0", Tls(*files)) as server:
        assert asks(server.address, pki) == "fake0"
        ca, key, chain = ((pki / name).read_bytes() for name in ("ca.pem", "client-key.pem", "client.pem"))
        with grpc.secure_channel(server.address, grpc.ssl_channel_credentials(ca, key, chain)) as channel:
            client = Client(channel)
            client.make()
            pki_in(tmp_path, "revoke", "pki", "client")
            with pytest.raises(grpc.RpcError) as error:
                next(client.call)
            assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED and "revoked" in error.value.details()
            assert fake.closed.wait(PATIENCE)
        assert "revoked" in asks(server.address, pki)


def test_certificates_are_read_again_when_they_change_and_a_broken_file_changes_nothing(fake: Fake, tmp_path: Path) -> None:
    for name in ("old", "new"):
        pki_in(tmp_path, "init", name, "--agent", "127.0.0.1")
    old, new, used = tmp_path / "old", tmp_path / "new", tmp_path / "used"
    shutil.copytree(old, used)
    with Server(fake, "127.0.0.1:0", Tls(*(str(used / name) for name in ("server.pem", "server-key.pem", "ca.pem")))) as server:
        assert asks(server.address, old) == "fake0"
        (used / "server.pem").write_text("no certificate")
        assert asks(server.address, old) == "fake0"
        for name in ("server-key.pem", "ca.pem", "server.pem"):
            shutil.copy(new / name, used / name)
        assert asks(server.address, new) == "fake0"
        assert asks(server.address, old).startswith("UNAVAILABLE")


def test_the_minimal_example_has_a_queue_pair_that_is_flushed(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("minimal_agent", EXAMPLES / "minimal_agent.py")
    assert spec is not None and spec.loader is not None
    minimal = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(minimal)
    assert len((EXAMPLES / "minimal_agent.py").read_text().splitlines()) <= 70
    with Server(minimal.MyCore(), f"unix:{tmp_path}/a.sock") as server, grpc.insecure_channel(
        server.address, options=[("grpc.default_authority", "localhost")]
    ) as channel:
        client = Client(channel)
        _, qp = client.make()
        assert "in RESET" in client.refused(post_send=verbs_pb2.PostSend(qp=qp, operation=1))
        client.ask(post_receive=verbs_pb2.PostReceive(qp=qp, wr_id=1))
        events, _ = client.ask(modify_qp=verbs_pb2.ModifyQp(qp=qp, state=7))
        assert [(event.completion.wr_id, event.completion.status) for event in events] == [(1, 5)]
        assert client.ask(query_qp=verbs_pb2.QueryQp(qp=qp))[1].status.state == 7
        client.leave()


def test_many_signals_end_it_as_one_does(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "minimal_agent.py", f"unix:{tmp_path}/a.sock"]
    environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"agent: listening on unix:{tmp_path}/a.sock, device my-core\n"
        for _ in range(100):
            process.terminate()
        try:
            code = process.wait(PATIENCE)
        finally:
            process.kill()
        # If a signal arrives after the handler was removed, the signal kills the process.
        assert code in (0, -15)
        assert not (tmp_path / "a.sock").exists()


# The product against the example.


def verdicts(tmp_path: Path, deviations: list[str], tests: list[str], more: list[str] | None = None) -> dict[str, str]:
    """Returns the outcomes of tests against examples/soft_roce.py."""
    return {verdict["test"]: verdict["outcome"] for verdict in judged(tmp_path, deviations, tests, more)}


def judged(
    tmp_path: Path, deviations: list[str], tests: list[str], more: list[str] | None = None, keys: str = ""
) -> list[dict[str, Any]]:
    """Returns the verdicts of tests against examples/soft_roce.py, on a rig with these additional keys."""
    with served(tmp_path, "soft_roce.py", deviations, more, keys) as run:
        return run(tests)


@contextmanager
def served(
    tmp_path: Path, example: str, deviations: list[str], more: list[str] | None = None, keys: str = ""
) -> Iterator[Callable[[list[str]], list[dict[str, Any]]]]:
    """Starts a device of the examples; yields a function that runs tests against the device."""
    verbatim = binary("verbatim")
    agent, device, tester = (tmp_path / name for name in ("agent.sock", "device.sock", "tester.sock"))
    rigs = tmp_path / "rigs.toml"
    rigs.write_text(
        'config_version = 1\n\n[[rig]]\nname = "soft"\nkind = "packet"\n'
        'socket = { local = "tester.sock", remote = "device.sock" }\n'
        f'mac = "02:00:00:00:00:02"\nip = "10.0.0.2"\nagent = "unix:{agent}"\n' + keys
    )
    rigs.chmod(0o600)
    command = [sys.executable, EXAMPLES / example, "--listen", f"unix:{agent}", "--socket", device, "--peer", tester]
    for deviation in deviations:
        command += ["--deviation", deviation]
    command += more or []
    # Each device needs its own journals, because all rigs have the same name.
    own = {"HOME": str(tmp_path), "STATE_DIRECTORY": str(tmp_path / "state")}
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), **own}

    def run(tests: list[str]) -> list[dict[str, Any]]:
        ran = subprocess.run(
            [verbatim, "run", "--server", "none", "--rig-file", rigs, "--rig", "soft", "--json", *tests],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
        )
        try:
            document = json.loads(ran.stdout)
        except ValueError:
            raise AssertionError(ran.stdout + ran.stderr) from None
        verdicts: list[dict[str, Any]] = document["verdicts"]
        return verdicts

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            (tmp_path / "pid").write_text(str(process.pid))
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "listening on" in said, said + process.stderr.read()
            # Drain the pipe, so that the device never blocks on it.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield run
        finally:
            process.terminate()
            assert process.wait(PATIENCE) in ((0,) if not keys else (0, -9))
            # A device that was killed leaves its socket; all others remove it.
            assert process.returncode != 0 or not device.exists()


SOUND = [
    "c09-060-send-responder",
    "c09-060-write-responder",
    "c09-060-read-responder",
    "c09-060-compare-swap-responder",
    "c09-060-send",
    "c09-060-read",
    "c09-duplicates",
    "c09-icrc",
    "c09-nak-fatal",
    "c09-psn-sequence",
    "c09-130-rnr-interval",
]


#: Tests that a busy machine may leave undecided: its round trip may exceed the device's extra delay.
TIMED = {"c09-130-rnr-interval"}


def test_the_sound_device_passes(tmp_path: Path) -> None:
    came = verdicts(tmp_path, [], SOUND)
    assert sorted(came) == sorted(SOUND)
    for test, outcome in came.items():
        assert outcome == "PASS" or (test in TIMED and outcome == "INCONCLUSIVE"), came


def test_a_device_without_datagrams_is_not_judged_by_them_and_the_run_goes_on(tmp_path: Path) -> None:
    tests = ["c09-datagrams", "c09-psn-sequence", "c09-q-key"]
    came = verdicts(tmp_path, [], tests, ["--no-ud"])
    assert came == {"c09-datagrams": "NOT_APPLICABLE", "c09-psn-sequence": "PASS", "c09-q-key": "NOT_APPLICABLE"}


def test_what_a_device_says_that_it_lacks_is_not_asked_of_it(tmp_path: Path) -> None:
    tests = ["c09-060-read", "c09-060-read-responder", "c09-060-send", "c09-060-send-responder", "c09-nak-invalid-request"]
    tests += ["c09-send-invalidate", "c09-walk"]
    more = ["--lacks", "READ", "--lacks", "FETCH_ADD"]
    assert verdicts(tmp_path, [], tests, more) == {
        "c09-060-read": "NOT_APPLICABLE",
        "c09-060-read-responder": "NOT_APPLICABLE",
        "c09-060-send": "PASS",
        "c09-060-send-responder": "PASS",
        # Only some cases of this test need READ or FetchAdd; the other cases run.
        "c09-nak-invalid-request": "PASS",
        "c09-send-invalidate": "NOT_APPLICABLE",
        "c09-walk": "PASS",
    }


@pytest.mark.parametrize(
    ("deviation", "test"),
    [
        ("nak-wrong-psn", "c09-psn-sequence"),
        ("msn-stands-still", "c09-060-send-responder"),
        ("no-rnr-timer", "c09-130-rnr-interval"),
        ("duplicate-delivered", "c09-duplicates"),
        ("icrc-ignored", "c09-icrc"),
        ("flush-forgotten", "c09-nak-fatal"),
    ],
)
def test_each_deviation_fails_and_is_no_error(tmp_path: Path, deviation: str, test: str) -> None:
    assert verdicts(tmp_path, [deviation], [test]) == {test: "FAIL"}


def test_a_slow_device_is_judged_by_its_own_clock(tmp_path: Path) -> None:
    more = ["--slow", "10"]
    # In real time, the slow device's RNR interval and extra delay are ten times as long.
    (one,) = judged(tmp_path, [], ["c09-130-rnr-interval"], more, "time_scale = 10\nagent_within = 60\nsend_within = 5\n")
    assert one["outcome"] in ("PASS", "INCONCLUSIVE"), one
    of_time = [check["measured"] for check in one["passed"] + one["findings"] if "measured" in check]
    # The device waits at least 491.52 ms of its own time, which is 4.9 s of real time.
    assert of_time and all(time["least_ns"] < 4.9e9 for time in of_time), of_time


def test_of_a_device_whose_speed_varies_a_retry_that_may_be_in_time_is_no_finding(tmp_path: Path) -> None:
    # With the slowest clock of this rig the retry is far too early; with the fastest clock the retry may be in time.
    (one,) = judged(tmp_path, [], ["c09-130-rnr-interval"], [], "time_scale = 5\ntime_scale_least = 1\n")
    assert one["outcome"] == "INCONCLUSIVE", one


def test_a_device_that_hangs_is_reset_and_that_is_a_finding_of_its_own(tmp_path: Path) -> None:
    start = " ".join(
        f"'{word}'"
        for word in [
            sys.executable,
            EXAMPLES / "soft_roce.py",
            *["--listen", f"unix:{tmp_path}/agent.sock"],
            *["--socket", tmp_path / "device.sock", "--peer", tmp_path / "tester.sock"],
        ]
    )
    reset = tmp_path / "reset"
    reset.write_text(
        "#!/bin/sh\n"
        f"kill -9 $(cat '{tmp_path}/pid')\n"
        f"rm -f '{tmp_path}/device.sock' '{tmp_path}/agent.sock'\n"
        f"{start} > '{tmp_path}/said' 2>&1 &\n"
        f"echo $! > '{tmp_path}/pid'\n"
        f"until grep -q listening '{tmp_path}/said'; do sleep 0.05; done\n"
        "echo power cycled\n"
    )
    reset.chmod(0o700)
    tests = ["c09-duplicates", "c09-psn-sequence"]
    try:
        hung, next_one = judged(tmp_path, ["hangs"], tests, [], 'reset = ["./reset"]\nreset_within = 60\n')
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 15)
    stopped = [check for check in hung["findings"] if check["about"] == "device stopped answering"]
    assert len(stopped) == 1 and "./reset" in stopped[0]["seen"] and "it answers again" in stopped[0]["seen"], hung
    assert next_one["outcome"] == "PASS", next_one


#: Tests with a silence after each case, which take minutes on a core with one queue pair.
LONG = {"c09-nak-invalid-request", "c09-143-retry-count", "c09-nak-remote-access"}
#: Devices that run in parallel: a test mostly waits.
CORES = 16


def test_no_test_fails_a_small_core_and_each_comes_to_its_end(tmp_path: Path) -> None:
    listing = [binary("verbatim"), "tests", "c09-*", "--json"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True)
    tests = [test["id"] for test in json.loads(listed.stdout)["tests"] if test["id"] not in LONG]
    left: "queue.SimpleQueue[str]" = queue.SimpleQueue()
    for test in tests:
        left.put(test)

    def work(number: int) -> list[dict[str, Any]]:
        place = tmp_path / str(number)
        place.mkdir()
        came = []
        # Every second agent leaves its device's limits undeclared.
        more = ["--silent"] if number % 2 else []
        with served(place, "small_core.py", [], more) as run:
            while True:
                try:
                    test = left.get_nowait()
                    # Run few rows: all rows would take minutes in real time.
                    came += run([test, "--set", "rows=6"] if "-matrix-" in test or "-pair-" in test else [test])
                except queue.Empty:
                    return came

    with ThreadPoolExecutor(CORES) as cores:
        came = [verdict for of_core in cores.map(work, range(CORES)) for verdict in of_core]
    wrong = {v["test"]: (v["outcome"], v["reason"]) for v in came if v["outcome"] in ("FAIL", "ERROR", "SKIPPED")}
    assert not wrong and len(came) == len(tests) > 75, wrong
    passed = [verdict for verdict in came if verdict["outcome"] == "PASS"]
    assert len(passed) >= 25, {v["test"]: (v["outcome"], v["reason"]) for v in came}


@pytest.mark.parametrize("more", [[], ["--silent"]])
def test_a_wrong_nak_of_a_small_core_is_found(tmp_path: Path, more: list[str]) -> None:
    with served(tmp_path, "small_core.py", ["nak-wrong-psn"], more) as run:
        (one,) = run(["c09-psn-regions"])
    assert one["outcome"] == "FAIL" and "NAK" in one["reason"], one


def test_the_page_shows_the_minimal_example_as_it_is() -> None:
    page = (ROOT / "docs" / "bring-your-own-agent.md").read_text()
    assert f"```python\n{(EXAMPLES / 'minimal_agent.py').read_text()}```\n" in page
