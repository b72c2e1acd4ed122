"""The asyncio client: the methods of `verbatim_client.Client` as coroutines.

>>> from verbatim_client.aio import Client
>>> async with Client() as client:
...     run = await client.run("virtual", ["C14-21"])
...     async for event in run.events(): ...
...     print((await run.wait()).outcome)

Make a client inside its running event loop.
"""

from .client import Client
from .lease import Lease
from .run import Run

__all__ = ["Client", "Lease", "Run"]
