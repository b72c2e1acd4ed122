"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc

from . import _ask, address, errors
from ._proto.verbatim.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    lease_pb2,
    lease_pb2_grpc,
    rig_pb2,
    rig_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)
from .address import PathLike
from .lease import Lease
from .model import Rig, Statement, Test
from .run import Run

T = TypeVar("T")

#: Timeout of calls with an immediate response, in seconds.
TIMEOUT_S = 30.0
#: Default duration of retries after a broken connection, in seconds.
PATIENCE_S = 60.0


class Client:
    """A connection to a daemon. Close the client, or use it in `with`.

    `server` is `unix:/PATH`, `/PATH`, `https://HOST:PORT` or `HOST:PORT`. The last two need `ca`, `cert` and `key`
    (PEM). Like `verbatim`, the client takes missing values from VERBATIM_SERVER, VERBATIM_CA, VERBATIM_CERT,
    VERBATIM_KEY and VERBATIM_SERVER_NAME, then from `~/.config/verbatim/client.toml`. The default server is the local
    socket.

    After a first successful call, the client retries for `patience_s` seconds. Before that call, it raises an error at
    once.
    """

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
        self._timeout_s = TIMEOUT_S
        self._reached = False
        if found.credentials is None:
            self._channel = grpc.insecure_channel(found.target, options=list(found.options))
        else:
            self._channel = grpc.secure_channel(found.target, found.credentials, options=list(found.options))
        self._runs = run_pb2_grpc.RunServiceStub(self._channel)
        self._rigs = rig_pb2_grpc.RigServiceStub(self._channel)
        self._leases = lease_pb2_grpc.LeaseServiceStub(self._channel)
        self._catalog = catalog_pb2_grpc.CatalogServiceStub(self._channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. Runs at the daemon continue."""
        self._channel.close()

    def _hurry(self, timeout_s: float) -> None:
        """From now on, calls take at most `timeout_s` seconds, and are not repeated."""
        self._timeout_s, self.patience_s = timeout_s, 0.0

    def rigs(self) -> list[Rig]:
        """Returns all rigs, in the order of the rig file."""
        return [Rig.of(rig) for rig in self._call(self._rigs.ListRigs, rig_pb2.ListRigsRequest()).rigs]

    def tests(self, patterns: str | Sequence[str] = ()) -> list[Test]:
        """Returns the catalogue's tests that match ids, public names, statements or globs; all without patterns."""
        request = catalog_pb2.ListTestsRequest(patterns=_ask.patterns(patterns))
        return [Test.of(test) for test in self._call(self._catalog.ListTests, request).tests]

    def statements(self) -> list[Statement]:
        """Returns the compliance statements that tests judge."""
        answer = self._call(self._catalog.ListStatements, catalog_pb2.ListStatementsRequest())
        return [Statement.of(statement) for statement in answer.statements]

    def run(
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
        return Run(self, self._patiently(lambda: self._call(self._runs.CreateRun, request)).run)

    def get_run(self, name: str) -> Run:
        """Returns a run by its name, `runs/ID` or `ID`."""
        request = run_pb2.GetRunRequest(name=_ask.named("runs", name))
        return Run(self, self._call(self._runs.GetRun, request).run)

    def runs(self, filter: str = "", page_size: int = 100) -> Iterator[Run]:
        """Yields the stored runs, the newest first. A filter is, for example, `rig=NAME AND outcome=FAIL`.

        The client fetches pages as needed. The verdicts have no observations; `refresh` adds them.
        """
        token = ""
        while True:
            request = run_pb2.ListRunsRequest(page_size=page_size, page_token=token, filter=filter)
            page = self._call(self._runs.ListRuns, request)
            yield from (Run(self, run) for run in page.runs)
            token = page.next_page_token
            if not token:
                return

    def reserve(
        self, rig: str = "", *, labels: str | Sequence[str] = (), lasts_s: int = 3600, priority: str = "normal"
    ) -> Lease:
        """Requests a lease of a rig, by name or labels. The lease may be PENDING: `with` and `Lease.wait` wait for the
        rig."""
        request = _ask.create_lease(rig, labels, lasts_s, priority)
        return Lease(self, self._patiently(lambda: self._call(self._leases.CreateLease, request)).lease)

    def leases(self, ended: bool = False) -> list[Lease]:
        """Returns the newest thousand leases that are active or pending; with `ended`, also ended leases."""
        request = lease_pb2.ListLeasesRequest(ended=ended, page_size=1000)
        return [Lease(self, lease) for lease in self._call(self._leases.ListLeases, request).leases]

    def renew(self, lease: Lease | str, lasts_s: int) -> Lease:
        """Renews a lease: the lease lasts `lasts_s` seconds from now."""
        request = lease_pb2.RenewLeaseRequest(name=_ask.named("leases", lease), lasts_s=_ask.seconds(lasts_s))
        return Lease(self, self._call(self._leases.RenewLease, request).lease)

    def end(self, lease: Lease | str) -> Lease:
        """Ends a lease. A current run under the lease stops at its next safe point."""
        request = lease_pb2.EndLeaseRequest(name=_ask.named("leases", lease))
        return Lease(self, self._patiently(lambda: self._call(self._leases.EndLease, request)).lease)

    def _call(self, call: Callable[..., Any], request: Any) -> Any:
        try:
            answer = call(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise errors.of(error, self.target) from error
        self._reached = True
        return answer

    def _patiently(self, call: Callable[[], T]) -> T:
        """Repeats a call while its error may be temporary. Use this only for calls that may be repeated."""
        backoff = errors.Backoff(self.patience_s)
        while True:
            try:
                return call()
            except errors.VerbatimError as error:
                if not self._reached:  # Waiting does not help with a wrong address.
                    raise
                wait_s = backoff.after(error)
            time.sleep(wait_s)
