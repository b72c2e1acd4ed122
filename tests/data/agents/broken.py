#!/usr/bin/python3
"""Agents that each break one rule of verbatim.agent.v1, for the tests of `verbatim doctor --agent`.

    broken.py FAULT DIRECTORY

The agent listens on unix:DIRECTORY/agent.sock. Its device is examples/soft_roce.py. The fault "none" changes nothing.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "client" / "python" / "examples"))
import soft_roce  # noqa: E402
from soft_roce import SoftRoce  # noqa: E402

from verbatim_client._proto.verbatim.agent.v1 import agent_pb2, verbs_pb2  # noqa: E402
from verbatim_client.agent import Operation, QpAttributes, QpStatus, Status, Opcode, serve, server, session  # noqa: E402
from verbatim_client.agent.session import Session  # noqa: E402

FAULTS = {}


def fault(patch):
    FAULTS[patch.__name__.replace("_", "-")] = patch
    return patch


def around(owner, name):
    """Returns a decorator that replaces a method by a function of the method and its arguments."""

    def put(function):
        method = getattr(owner, name)
        setattr(owner, name, lambda *of, **named: function(method, *of, **named))

    return put


@fault
def none():
    pass


@fault
def headers_with_the_first_answer():
    @around(server._Service, "Session")
    def begin(method, self, requests, context):
        context.send_initial_metadata = lambda _: None
        return method(self, requests, context)


@fault
def timeout_without_a_code():
    soft_roce.Capabilities = lambda **of: SimpleNamespace(**of, timeouts=[14, 32])


@fault
def atomics_in_one_place():
    soft_roce.Capabilities = lambda **of: SimpleNamespace(**{**of, "operations": [Operation.SEND]})


@fault
def no_gid():
    soft_roce.DeviceInfo = lambda **of: type("Info", (session.DeviceInfo,), {"__post_init__": lambda _: None})(
        **{**of, "gids": []}
    )


@fault
def sign_of_life_is_a_status():
    @around(Session, "_query_qp")
    def query(method, self, asked):
        return method(self, asked) if asked.qp else verbs_pb2.Reply(status=verbs_pb2.QpStatus(state=1))


@fault
def answers_with_own_numbers():
    count = iter(range(1, 1 << 30))

    @around(Session, "execute")
    def execute(method, self, request):
        method(self, agent_pb2.SessionRequest(number=next(count), command=request.command))


@fault
def unknown_command_is_done():
    @around(Session, "_answer")
    def answer(method, self, command):
        return method(self, command) if command.WhichOneof("kind") else verbs_pb2.Reply(done=verbs_pb2.Done())


@fault
def refusals_without_a_text():
    around(Session, "_handles" if hasattr(Session, "_handles") else "_pair")(_mute)
    around(Session, "_slice")(_mute)


def _mute(method, *of):
    try:
        return method(*of)
    except session.Refused as refused:
        raise session.Refused("", refused.errno) from None


@fault
def microseconds():
    now_ns = session.now_ns
    session.now_ns = lambda: now_ns() // 1000


@fault
def instants_the_wrong_way_round():
    @around(Session, "_put")
    def put(method, self, earliest, latest, **kind):
        method(self, latest + 1, earliest, **kind)


@fault
def events_behind_the_answer():
    @around(Session, "_put")
    def put(method, self, earliest, latest, **kind):
        kept = self.__dict__.setdefault("kept", [])
        if "event" in kind:
            kept.append((earliest - 10_000_000, latest - 10_000_000, kind))
            return
        method(self, earliest, latest, **kind)
        while kept:
            earliest, latest, kind = kept.pop(0)
            method(self, earliest, latest, **kind)


@fault
def handles_are_reused():
    @around(Session, "_new_handle")
    def new(_, self):
        taken = {*self._pairs, *self._memory}
        return next(handle for handle in range(1, 1 << 30) if handle not in taken)


@fault
def handles_of_the_process():
    count = iter(range(1, 1 << 30))
    Session._new_handle = lambda _: next(count)


@fault
def memory_of_old_bytes():
    @around(SoftRoce, "register_memory")
    def register(method, self, length, access):
        memory = method(self, length, access)
        memory.data[:] = b"\xcc" * length
        return memory


@fault
def one_key_for_all():
    @around(SoftRoce, "register_memory")
    def register(method, self, length, access):
        memory = method(self, length, access)
        memory.r_key = 0x77
        return memory


@fault
def no_bounds():
    @around(Session, "_slice")
    def of(method, self, asked):
        try:
            return method(self, asked)
        except session.Refused:
            memory = self._memory.get(asked.memory)
            if memory is None:
                raise
            return session.Slice(memory, asked.offset, asked.length)

    around(SoftRoce, "read_memory")(lambda _, self, memory, offset, length: bytes(length))


@fault
def messages_of_4_mib():
    server._OPTIONS[:] = [option for option in server._OPTIONS if "message_length" not in option[0]]


@fault
def pings_end_the_connection():
    server._OPTIONS[:] = [option for option in server._OPTIONS if "ping" not in option[0]]


@fault
def psns_are_not_told():
    around(SoftRoce, "query_qp")(lambda method, self, qp: QpStatus(method(self, qp).state, 0, 0))


@fault
def absent_is_zero():
    @around(SoftRoce, "modify_qp")
    def modify(method, self, qp, state, attributes):
        method(self, qp, state, attributes)
        if attributes.sq_psn is None and state == 4:
            qp.next_psn = 0


@fault
def numbers_are_cut_off():
    def attributes(of):
        given = {name: getattr(of, name) & limit for name, (_, limit) in session._ATTRIBUTES.items() if of.HasField(name)}
        if of.HasField("access"):
            given["access"] = session._access(of.access)
        if of.HasField("address"):
            given["address"] = session._address(of.address)
        return QpAttributes(**given)

    session._attributes = attributes


@fault
def nobody_flushes():
    SoftRoce.deviation = "flush-forgotten"


@fault
def flushed_backwards():
    @around(soft_roce.Pair, "flush")
    def flush(method, self):
        self.receives.reverse()
        method(self)


@fault
def flushed_with_success():
    @around(Session, "completed")
    def completed(method, self, qp, wr_id, status, *rest):
        method(self, qp, wr_id, Status.SUCCESS, *rest)


@fault
def wr_ids_of_32_bits():
    @around(Session, "completed")
    def completed(method, self, qp, wr_id, *rest):
        method(self, qp, wr_id & 0xFFFF_FFFF, *rest)


@fault
def posts_in_err_wait():
    @around(soft_roce.Pair, "flush_sends")
    def flush(method, self):
        if self.state != 7 or len(self.sends) != 1:
            method(self)


@fault
def reset_flushes():
    @around(soft_roce.Pair, "modify")
    def modify(method, self, to, attributes):
        receives = list(self.receives)
        method(self, to, attributes)
        if to == 1:
            for receive in receives:
                self.device.complete(self, receive.wr_id, Status.WR_FLUSH_ERR, Opcode.RECV)


@fault
def refusals_end_the_session():
    @around(Session, "_query_qp")
    def query(method, self, asked):
        if asked.qp == 0:
            self.end(grpc.StatusCode.INTERNAL, "no such queue pair")
        return method(self, asked)


@fault
def sessions_are_not_counted():
    @around(server._Service, "GetAgent")
    def get(method, self, *of):
        told = method(self, *of)
        told.sessions = 0
        return told


def main():
    name, directory = sys.argv[1:]
    FAULTS[name]()
    deviations = frozenset({SoftRoce.deviation} if hasattr(SoftRoce, "deviation") else ())
    device = SoftRoce(
        f"{directory}/device.sock", f"{directory}/tester.sock", "10.0.0.1", "02:00:00:00:00:01", deviations
    )
    serve(device, f"unix:{directory}/agent.sock")


if __name__ == "__main__":
    main()
