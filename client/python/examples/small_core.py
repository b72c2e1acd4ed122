#!/usr/bin/python3
"""A small core, as an FPGA may have it: soft_roce.py with one queue pair and little else.

    small_core.py --listen unix:/tmp/soft/agent.sock --socket /tmp/soft/device.sock --peer /tmp/soft/tester.sock

The core's ACK timeout and the interval of its RNR NAKs are fixed. Its memory begins at address 0. One packet of one
message is outstanding at a time. The core has no SQD, no atomics, no immediate data and no datagrams. All of this
conforms, so no test may fail. The agent declares these limits. With ``--silent`` the agent declares less, and refuses
further queue pairs, SQD, datagrams and operations.
"""

from __future__ import annotations

from dataclasses import replace

from verbatim_client.agent import (
    Access,
    Capabilities,
    DeviceInfo,
    Memory,
    Operation,
    QpAttributes,
    QpState,
    QueuePair,
    Refused,
    Service,
)

from soft_roce import SoftRoce, arguments

#: The codes of 268 ms and 10.24 ms.
TIMEOUT, RNR_TIMER = 16, 20
OPERATIONS = [Operation.SEND, Operation.WRITE, Operation.READ]
LACKS = frozenset(Operation) - frozenset(OPERATIONS)
STATES = [state for state in QpState if state not in (QpState.SQD, QpState.SQE)]
#: Linux's error numbers for an unsupported operation, a lack of resources, and an invalid value.
EOPNOTSUPP, ENOMEM, EINVAL = 95, 12, 22


class SmallCore(SoftRoce):
    name = "core0"
    window = 1
    max_rd_atomic = 1
    #: Whether the agent leaves its limits undeclared.
    silent = False

    def open(self) -> DeviceInfo:
        has = Capabilities(answers=OPERATIONS, timeouts=[TIMEOUT], min_rnr_timers=[RNR_TIMER])
        if not self.silent:
            has = replace(has, operations=OPERATIONS, services=[Service.RC], qp_states=STATES)
        most = 64 if self.silent else 1
        return replace(
            self.info, active_mtu=3, max_qp=most, max_qp_rd_atom=1, max_qp_init_rd_atom=1, capabilities=has
        )

    def register_memory(self, length: int, access: Access) -> Memory:
        self._next_address = 0
        return super().register_memory(length, access)

    def create_qp(self, service: Service, send_depth: int, receive_depth: int) -> QueuePair:
        if self.pairs:
            raise Refused("this core has one queue pair", ENOMEM)
        return super().create_qp(service, send_depth, receive_depth)

    def modify_qp(self, qp: QueuePair, state: QpState, attributes: QpAttributes) -> None:
        if state == QpState.SQD:
            raise Refused("this core has no SQD", EOPNOTSUPP)
        for name, fixed in (("timeout", TIMEOUT), ("min_rnr_timer", RNR_TIMER)):
            if getattr(attributes, name) not in (None, fixed):
                raise Refused(f"this core has {name} {fixed} and no other", EINVAL)
        super().modify_qp(qp, state, attributes)


def main() -> None:
    parser = arguments("A small core in Python, behind an agent.")
    parser.add_argument("--silent", action="store_true", help="what it refuses it does not say beforehand")
    given = parser.parse_args()
    device = SmallCore(
        given.socket, given.peer, given.ip, given.mac, frozenset(given.deviation), LACKS, has_ud=False,
    )
    device.silent = given.silent
    device.serve(given.listen)


if __name__ == "__main__":
    main()
