#!/usr/bin/python3
"""The smallest agent. Replace each `core_...` by a call of your simulator or your register interface."""

import itertools
import sys

from verbatim_client.agent import Capabilities, Device, DeviceInfo, Gid, Opcode, QpState, QpStatus, QueuePair
from verbatim_client.agent import Refused, Service, Status, serve


class Pair(QueuePair):
    """State of a queue pair. A real agent keeps it in the core."""

    def __init__(self, qpn):
        super().__init__(qpn)
        self.state, self.sq_psn, self.rq_psn = QpState.RESET, 0, 0
        self.sends, self.receives = [], []


class MyCore(Device):
    name = "my-core"
    numbers = itertools.count(0x11)

    def open(self):
        return DeviceInfo(
            gids=[Gid.of_ip(0, "10.0.0.1")], active_mtu=3, atomics=False, firmware="rtl-2024.1",  # MTU 3: 1024 bytes
            capabilities=Capabilities(services=[Service.RC]),  # without UD: tests of UD are NOT_APPLICABLE
        )

    def create_qp(self, service, send_depth, receive_depth):
        if service != Service.RC:
            raise Refused("this core supports only reliable connections (RC)")
        return Pair(next(self.numbers))  # core_create_qp(...)

    def modify_qp(self, qp, state, attributes):
        qp.state = state  # core_write_context(qp.qpn, state, attributes.named())
        if attributes.sq_psn is not None:
            qp.sq_psn = attributes.sq_psn
        if attributes.rq_psn is not None:
            qp.rq_psn = attributes.rq_psn
        if state == QpState.ERR:
            self.flush(qp)
        elif state == QpState.RESET:
            qp.sends, qp.receives = [], []

    def flush(self, qp):
        for request in qp.sends:
            self.complete(qp, request.wr_id, Status.WR_FLUSH_ERR, Opcode.of(request.operation))
        for request in qp.receives:
            self.complete(qp, request.wr_id, Status.WR_FLUSH_ERR, Opcode.RECV)
        qp.sends, qp.receives = [], []

    def query_qp(self, qp):
        return QpStatus(qp.state, qp.sq_psn, qp.rq_psn)  # core_read_context(qp.qpn)

    def post_send(self, qp, request):
        if qp.state not in (QpState.RTS, QpState.ERR):
            raise Refused(f"a send request needs a queue pair in RTS; this queue pair is in {qp.state.name}")
        qp.sends.append(request)  # core_ring_doorbell(qp.qpn, request); later, from any thread: self.complete(...)
        if qp.state == QpState.ERR:
            self.flush(qp)

    def post_receive(self, qp, request):
        qp.receives.append(request)  # core_post_receive(qp.qpn, request)
        if qp.state == QpState.ERR:
            self.flush(qp)


if __name__ == "__main__":
    serve(MyCore(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7000")
