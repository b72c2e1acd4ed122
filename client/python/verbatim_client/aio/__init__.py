"""The client for asyncio: the same words as `verbatim_client.Client`, each to be awaited.

>>> from verbatim_client.aio import Client
>>> async with Client() as client:
...     run = await client.run("virtual", ["C14-21"])
...     async for event in run.events(): ...
...     print((await run.wait()).outcome)

Make a client where its event loop runs.
"""

from .client import Client
from .lease import Lease
from .run import Run

__all__ = ["Client", "Lease", "Run"]
