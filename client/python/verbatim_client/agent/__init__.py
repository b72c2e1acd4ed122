"""Bring your own agent: a device without Linux verbs is tested by Verbatim over ``verbatim.agent.v1``.

Subclass :class:`Device`, and hand it to :func:`serve`::

    from verbatim_client.agent import Device, DeviceInfo, serve

    class Core(Device):
        def open(self) -> DeviceInfo: ...
        def create_qp(self, service, send_depth, receive_depth): ...

    serve(Core(), "unix:/tmp/core.sock")

The guide is docs/bring-your-own-agent.md, a whole device is examples/soft_roce.py.
"""

from .device import (
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
    now_ns,
)
from .server import Server, serve
from .session import Limits
from .tls import ListenError, Tls

__all__ = [
    "Access",
    "AddressVector",
    "Capabilities",
    "Device",
    "DeviceInfo",
    "Gid",
    "Limits",
    "ListenError",
    "Memory",
    "Opcode",
    "Operation",
    "QpAttributes",
    "QpState",
    "QpStatus",
    "QueuePair",
    "ReceiveRequest",
    "Refused",
    "SendRequest",
    "Server",
    "Service",
    "Slice",
    "Status",
    "Tls",
    "now_ns",
    "serve",
]
