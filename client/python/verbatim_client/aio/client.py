"""The asyncio client: the same as `verbatim_client.client`, with awaitable calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio

from .. import _ask, address, errors
from .._proto.verbatim.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    lease_pb2,
    lease_pb2_grpc,
    rig_pb2,
    rig_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)
from ..address import PathLike
from ..client import PATIENCE_S, TIMEOUT_S
from ..model import Rig, Statement, Test
from .lease import Lease
from .run import Run

T = TypeVar("T")


class Client:
    """A connection to a daemon, like `verbatim_client.Client`. Close the client, or use it in `async with`."""

    def __init__(
        self,
        server: str | None = None,
        *,
        ca: PathLike | None = None,
        cert: PathLike | None = None,
        key: PathLike | None = None,
        server_name: str | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        found = address.find(server, ca, cert, key, server_name)
        self.target = found.target
        self.patience_s = patience_s
        self._reached = False
        if found.credentials is None:
            self._channel = grpc.aio.insecure_channel(found.target, options=list(found.options))
        else:
            self._channel = grpc.aio.secure_channel(found.target, found.credentials, options=list(found.options))
        self._runs = run_pb2_grpc.RunServiceStub(self._channel)
        self._rigs = rig_pb2_grpc.RigServiceStub(self._channel)
        self._leases = lease_pb2_grpc.LeaseServiceStub(self._channel)
        self._catalog = catalog_pb2_grpc.CatalogServiceStub(self._channel)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection. Runs at the daemon continue."""
        await self._channel.close()

    async def rigs(self) -> list[Rig]:
        """Returns all rigs, in the order of the rig file."""
        return [Rig.of(rig) for rig in (await self._call(self._rigs.ListRigs, rig_pb2.ListRigsRequest())).rigs]

    async def tests(self, patterns: str | Sequence[str] = ()) -> list[Test]:
        """Returns the catalogue's tests that match ids, public names, statements or globs; all without patterns."""
        request = catalog_pb2.ListTestsRequest(patterns=_ask.patterns(patterns))
        return [Test.of(test) for test in (await self._call(self._catalog.ListTests, request)).tests]

    async def statements(self) -> list[Statement]:
        """Returns the compliance statements that tests judge."""
        answer = await self._call(self._catalog.ListStatements, catalog_pb2.ListStatementsRequest())
        return [Statement.of(statement) for statement in answer.statements]

    async def run(
        self,
        rig: str = "",
        tests: str | Sequence[str] = (),
        *,
        seed: int = 0,
        parameters: Mapping[str, int] | None = None,
        exit_first: bool = False,
        lease: Lease | str = "",
        priority: str = "normal",
        own_lease: bool = False,
        wait_at_most_s: int | None = None,
    ) -> Run:
        """Creates a run of the matching tests. The run waits for its rig and then begins.

        With `lease` (from `reserve`) the run uses that lease and its rig. Without `lease` the run uses your lease of
        the rig, if you hold one. With `own_lease` the run waits for its own lease. `priority` is "low", "normal" or
        "high". After `wait_at_most_s` in the queue the run ends without having begun. If the client repeats its
        request, the daemon makes only one run. """
        under = _ask.named("leases", lease) if lease else ""
        request = _ask.create_run(rig, tests, seed, parameters, exit_first, under, priority, own_lease, wait_at_most_s)
        return Run(self, (await self._patiently(lambda: self._call(self._runs.CreateRun, request))).run)

    async def get_run(self, name: str) -> Run:
        """Returns a run by its name, `runs/ID` or `ID`."""
        request = run_pb2.GetRunRequest(name=_ask.named("runs", name))
        return Run(self, (await self._call(self._runs.GetRun, request)).run)

    async def runs(self, filter: str = "", page_size: int = 100) -> AsyncIterator[Run]:
        """Yields the stored runs, the newest first. A filter is, for example, `rig=NAME AND outcome=FAIL`.

        The client fetches pages as needed. The verdicts have no observations; `refresh` adds them.
        """
        token = ""
        while True:
            request = run_pb2.ListRunsRequest(page_size=page_size, page_token=token, filter=filter)
            page = await self._call(self._runs.ListRuns, request)
            for run in page.runs:
                yield Run(self, run)
            token = page.next_page_token
            if not token:
                return

    async def reserve(
        self, rig: str = "", *, labels: str | Sequence[str] = (), lasts_s: int = 3600, priority: str = "normal"
    ) -> Lease:
        """Requests a lease of a rig, by name or labels. The lease may be PENDING: `async with` and `Lease.wait` wait
        for the rig."""
        request = _ask.create_lease(rig, labels, lasts_s, priority)
        return Lease(self, (await self._patiently(lambda: self._call(self._leases.CreateLease, request))).lease)

    async def leases(self, ended: bool = False) -> list[Lease]:
        """Returns the newest thousand leases that are active or pending; with `ended`, also ended leases."""
        request = lease_pb2.ListLeasesRequest(ended=ended, page_size=1000)
        return [Lease(self, lease) for lease in (await self._call(self._leases.ListLeases, request)).leases]

    async def renew(self, lease: Lease | str, lasts_s: int) -> Lease:
        """Renews a lease: the lease lasts `lasts_s` seconds from now."""
        request = lease_pb2.RenewLeaseRequest(name=_ask.named("leases", lease), lasts_s=_ask.seconds(lasts_s))
        return Lease(self, (await self._call(self._leases.RenewLease, request)).lease)

    async def end(self, lease: Lease | str) -> Lease:
        """Ends a lease. A current run under the lease stops at its next safe point."""
        request = lease_pb2.EndLeaseRequest(name=_ask.named("leases", lease))
        return Lease(self, (await self._patiently(lambda: self._call(self._leases.EndLease, request))).lease)

    async def _call(self, call: Callable[..., Any], request: Any) -> Any:
        try:
            answer = await call(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise errors.of(error, self.target) from error
        self._reached = True
        return answer

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call while its error may be temporary. Use this only for calls that may be repeated."""
        backoff = errors.Backoff(self.patience_s)
        while True:
            try:
                return await call()
            except errors.VerbatimError as error:
                if not self._reached:  # Waiting does not help with a wrong address.
                    raise
                wait_s = backoff.after(error)
            await asyncio.sleep(wait_s)
