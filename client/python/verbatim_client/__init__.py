"""Client of Verbatim, the conformance tester of RDMA devices.

>>> from verbatim_client import Client
>>> with Client() as client:
...     run = client.run("virtual", ["C14-21"])
...     print(run.wait().outcome)

`verbatim_client.aio` is the same client for asyncio. `verbatim_client.record` reads records.
`verbatim_client.pytest_plugin` makes each conformance test an item of pytest.
"""

from .client import Client
from .errors import VerbatimError
from .lease import Lease
from .model import Cause, Check, Ended, KnownDeviation, Outcome, Rig, Showed, Statement, Test, Verdict
from .run import Run

__all__ = [
    "Cause",
    "Check",
    "Client",
    "Ended",
    "KnownDeviation",
    "Lease",
    "Outcome",
    "Rig",
    "Run",
    "Showed",
    "Statement",
    "Test",
    "Verdict",
    "VerbatimError",
]
