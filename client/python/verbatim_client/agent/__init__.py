"""Bring your own agent: Verbatim tests a device without Linux verbs over ``verbatim.agent.v1``.

Subclass :class:`Device`, and pass an instance to :func:`serve`::

    from verbatim_client.agent import Device, DeviceInfo, serve

    class Core(Device):
        def open(self) -> DeviceInfo: ...
        def create_qp(self, service, send_depth, receive_depth): ...

    serve(Core(), "unix:/tmp/core.sock")

The guide is docs/bring-your-own-agent.md. A complete device is examples/soft_roce.py.
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
