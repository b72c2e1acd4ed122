"""examples/soft_roce.py with the identity of Linux rxe 6.1. Like rxe, this device does not flush receives posted in
ERR."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import soft_roce  # noqa: E402
from verbatim_client.agent import DeviceInfo, QpState, QueuePair, ReceiveRequest  # noqa: E402


class RxeLike(soft_roce.SoftRoce):
    def open(self) -> DeviceInfo:
        return replace(super().open(), vendor_id=0xFF_FFFF)

    def post_receive(self, qp: QueuePair, request: ReceiveRequest) -> None:
        with self.lock:
            if self.pairs[qp.qpn].state == QpState.ERR:
                return
        super().post_receive(qp, request)


if __name__ == "__main__":
    os.uname = lambda: SimpleNamespace(sysname="Linux", release="6.1.0-43-amd64")
    soft_roce.SoftRoce = RxeLike
    soft_roce.main()
