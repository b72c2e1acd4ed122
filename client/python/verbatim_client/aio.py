"""The client for asyncio: the same words as `verbatim_client.Client`, each to be awaited.

>>> from verbatim_client.aio import Client
>>> async with Client() as client:
...     run = await client.run("virtual", ["C14-21"])
...     async for event in run.events(): ...
...     print((await run.wait()).outcome)
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio

from . import address, errors
from ._proto.verbatim.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    event_pb2,
    rig_pb2,
    rig_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)
from .client import PATIENCE_S, TIMEOUT_S
from .model import Ended, Rig, Test

T = TypeVar("T")


class Client:
    """A daemon, as `verbatim_client.Client` has it."""

    def __init__(
        self,
        server: str | None = None,
        *,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        server_name: str | None = None,
    ) -> None:
        found = address.find(server, ca, cert, key, server_name)
        self.target = found.target
        if found.credentials is None:
            self._channel = grpc.aio.insecure_channel(found.target, options=list(found.options))
        else:
            self._channel = grpc.aio.secure_channel(found.target, found.credentials, options=list(found.options))
        self._runs = run_pb2_grpc.RunServiceStub(self._channel)
        self._rigs = rig_pb2_grpc.RigServiceStub(self._channel)
        self._catalog = catalog_pb2_grpc.CatalogServiceStub(self._channel)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection. Runs go on at the daemon."""
        await self._channel.close()

    async def _call(self, call: Callable[..., Awaitable[T]], request: Any) -> T:
        try:
            return await call(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise errors.of(error, self.target) from error

    async def rigs(self) -> list[Rig]:
        """All rigs."""
        answer = await self._call(self._rigs.ListRigs, rig_pb2.ListRigsRequest())
        return [Rig.of(rig) for rig in answer.rigs]

    async def tests(self, patterns: Sequence[str] = ()) -> list[Test]:
        """The catalogue's tests that match."""
        answer = await self._call(self._catalog.ListTests, catalog_pb2.ListTestsRequest(patterns=patterns))
        return [Test.of(test) for test in answer.tests]

    async def run(
        self,
        rig: str,
        patterns: Sequence[str] = (),
        *,
        seed: int = 0,
        parameters: Mapping[str, int] | None = None,
        exit_first: bool = False,
        lease: str = "",
    ) -> Run:
        """Creates a run, which waits for its rig and then runs."""
        spec = event_pb2.RunSpec(
            rig="" if lease else rig,
            patterns=patterns,
            parameters=parameters or {},
            seed=seed,
            exit_first=exit_first,
        )
        request = run_pb2.CreateRunRequest(request_id=str(uuid.uuid4()), spec=spec, lease=lease)
        return Run(self, (await self._patiently(lambda: self._call(self._runs.CreateRun, request))).run)

    async def get_run(self, name: str) -> Run:
        """A run by its name, `runs/ID` or `ID`."""
        name = name if name.startswith("runs/") else f"runs/{name}"
        return Run(self, (await self._call(self._runs.GetRun, run_pb2.GetRunRequest(name=name))).run)

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        until, wait = time.monotonic() + PATIENCE_S, 0.1
        while True:
            try:
                return await call()
            except errors.VerbatimError as error:
                if error.code not in errors.PASSING or time.monotonic() + wait > until:
                    raise
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)


class Run:
    """A run at a daemon, as `verbatim_client.Run` has it."""

    def __init__(self, client: Client, message: run_pb2.Run) -> None:
        self._client = client
        #: The daemon's message, as it last came.
        self.message = message

    @property
    def name(self) -> str:
        """`runs/ID`."""
        return self.message.name

    async def events(self, cursor: int = 0) -> AsyncIterator[event_pb2.RunEvent]:
        """What happens in the run, to its end; a connection that breaks is taken up again where it broke."""
        until, wait = time.monotonic() + PATIENCE_S, 0.1
        while True:
            request = run_pb2.WatchRunRequest(name=self.name, cursor=cursor)
            try:
                async for answer in self._client._runs.WatchRun(request):
                    cursor = answer.event.cursor
                    until, wait = time.monotonic() + PATIENCE_S, 0.1
                    yield answer.event
                return
            except grpc.RpcError as error:
                ours = errors.of(error, self._client.target)
                if ours.code not in errors.PASSING or time.monotonic() + wait > until:
                    raise ours from error
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)

    async def wait(self) -> Ended:
        """Waits for the run's end."""
        async for _ in self.events():
            pass
        request = run_pb2.GetRunRequest(name=self.name)
        answer = await self._client._patiently(lambda: self._client._call(self._client._runs.GetRun, request))
        self.message = answer.run
        return Ended.of(self.message)

    async def cancel(self) -> None:
        """Has the daemon stop the run; the device is restored first."""
        request = run_pb2.CancelRunRequest(name=self.name)
        self.message = (await self._client._call(self._client._runs.CancelRun, request)).run

    async def read(self, artifact: str) -> bytes:
        """A file of the run's bundle."""
        request = run_pb2.ReadArtifactRequest(name=self.name, artifact=artifact)
        try:
            return b"".join([part.data async for part in self._client._runs.ReadArtifact(request)])
        except grpc.RpcError as error:
            raise errors.of(error, self._client.target) from error
