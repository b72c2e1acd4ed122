"""A run for asyncio: the same as `verbatim_client.run`, with awaitable calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import grpc

from .. import _ask, errors
from .._proto.verbatim.v1 import event_pb2, run_pb2
from ..address import PathLike
from ..model import Ended
from ..record import Record
from ..run import RunFacts

if TYPE_CHECKING:
    from .client import Client


class Run(RunFacts):
    """A run. `async with` cancels the run at the block's end if the run has not ended."""

    def __init__(self, client: Client, message: run_pb2.Run) -> None:
        super().__init__(message)
        self._client = client

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over() and not (await self.refresh())._is_over():
            await self.cancel()

    async def refresh(self) -> Run:
        """Fetches the state of the run from the daemon."""
        request = run_pb2.GetRunRequest(name=self.name)
        self.message = (await self._client._patiently(lambda: self._client._call(self._client._runs.GetRun, request))).run
        return self

    def events(self, cursor: int = 0) -> AsyncIterator[event_pb2.RunEvent]:
        """Yields the events of the run, from its beginning (or after `cursor`) to its end.

        After a broken connection the iterator reconnects, with retries for the client's `patience_s`, and continues at
        the next event. """
        return self._watch(cursor, None)

    async def _watch(self, cursor: int, until: float | None) -> AsyncIterator[event_pb2.RunEvent]:
        backoff = errors.Backoff(self._client.patience_s)
        while True:
            left_s = None if until is None else max(0.0, until - time.monotonic())
            call = self._client._runs.WatchRun(run_pb2.WatchRunRequest(name=self.name, cursor=cursor), timeout=left_s)
            try:
                async for answer in call:
                    cursor = answer.event.cursor
                    backoff.reset()
                    self._take(answer.event)
                    yield answer.event
                # A daemon that shuts down may end the stream without an error.
                if self._is_over() or (await self.refresh())._is_over():
                    return
                wait_s = backoff.after(self._broke(self._client.target))
            except grpc.RpcError as error:
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(f"{self.name} has not ended: {self.state}") from error
                wait_s = backoff.after(errors.of(error, self._client.target))
            finally:
                call.cancel()  # Ends the stream at the daemon if the caller leaves the loop early.
            await asyncio.sleep(wait_s)

    async def wait(self, timeout_s: float | None = None) -> Ended:
        """Waits for the run's end. Raises TimeoutError after `timeout_s` seconds; the run then continues."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        async for _ in self._watch(0, until):
            pass
        return Ended.of((await self.refresh()).message)

    async def cancel(self) -> None:
        """Requests the daemon to stop the run. The run restores its device and then ends; `wait` returns at the end."""
        request = run_pb2.CancelRunRequest(name=self.name)
        self.message = (await self._client._call(self._client._runs.CancelRun, request)).run

    async def artifacts(self) -> list[str]:
        """Returns the names of the files of the run's bundle."""
        request = run_pb2.ListArtifactsRequest(name=self.name)
        answer = await self._client._patiently(lambda: self._client._call(self._client._runs.ListArtifacts, request))
        return [artifact.name for artifact in answer.artifacts]

    async def read(self, artifact: str) -> bytes:
        """Returns a file of the run's bundle. The daemon makes `run.pcapng` on request."""
        return await self._client._patiently(lambda: self._whole(artifact))

    async def record(self, test: str) -> Record:
        """Returns the record of one of the run's tests, by the test's id."""
        name = _ask.record_of(test, await self.artifacts(), self.name)
        return Record.parse(await self.read(name), f"{self.name}/{name}")

    async def download(self, directory: PathLike) -> Path:
        """Writes the run's bundle into a directory that is new or empty, and checks the files against the manifest.

        `verbatim judge` and `verbatim verify` read the bundle. Raises FileExistsError when the directory is not empty.
        """
        place = _ask.empty(directory)
        for name in _ask.in_order(await self.artifacts(), self.name):
            await self._client._patiently(lambda: self._save(name, place / name))
        _ask.check_bundle(place, self.name)
        return place

    async def _whole(self, artifact: str) -> bytes:
        return b"".join([chunk async for chunk in self._chunks(artifact)])

    async def _save(self, artifact: str, path: Path) -> None:
        with path.open("wb") as file:
            async for chunk in self._chunks(artifact):
                file.write(chunk)

    async def _chunks(self, artifact: str) -> AsyncIterator[bytes]:
        request = run_pb2.ReadArtifactRequest(name=self.name, artifact=artifact)
        try:
            async for part in self._client._runs.ReadArtifact(request):
                yield part.data
        except grpc.RpcError as error:
            raise errors.of(error, self._client.target) from error
