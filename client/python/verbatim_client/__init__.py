"""Client of Verbatim, the conformance tester of RDMA devices.

>>> from verbatim_client import Client
>>> with Client() as client:
...     run = client.run("virtual", ["C14-21"])
...     print(run.wait().outcome)

`verbatim_client.aio` has the same for asyncio, `verbatim_client.record` reads records, and
`verbatim_client.pytest_plugin` makes each conformance test an item of pytest.
"""

from .client import Client, Run
from .errors import VerbatimError
from .model import Cause, Check, Ended, Outcome, Rig, Test, Verdict

__all__ = ["Cause", "Check", "Client", "Ended", "Outcome", "Rig", "Run", "Test", "Verdict", "VerbatimError"]
