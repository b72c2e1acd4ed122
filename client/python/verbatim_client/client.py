"""The client for programs that block."""

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

#: For calls that answer at once, seconds.
TIMEOUT_S = 30.0
#: How long what broke is tried again, seconds, unless a client says otherwise.
PATIENCE_S = 60.0


class Client:
    """A daemon. Close it, or use it in `with`.

    `server` is `unix:/PATH`, `/PATH`, `https://HOST:PORT` or `HOST:PORT` (these with `ca`, `cert` and `key`, PEM files).
    What is not given is taken from VERBATIM_SERVER, VERBATIM_CA, VERBATIM_CERT, VERBATIM_KEY and VERBATIM_SERVER_NAME,
    then from `~/.config/verbatim/client.toml`, as `verbatim` does; else it is the local socket.

    A daemon that was reached once and is away is tried again for `patience_s`; one that never was, is an error at once.
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
        """Ends the connection. Runs go on at the daemon."""
        self._channel.close()

    def rigs(self) -> list[Rig]:
        """All rigs, in the order of the rig file."""
        return [Rig.of(rig) for rig in self._call(self._rigs.ListRigs, rig_pb2.ListRigsRequest()).rigs]

    def tests(self, patterns: str | Sequence[str] = ()) -> list[Test]:
        """The catalogue's tests that match: ids, public names, statements or globs; all when none is given."""
        request = catalog_pb2.ListTestsRequest(patterns=_ask.patterns(patterns))
        return [Test.of(test) for test in self._call(self._catalog.ListTests, request).tests]

    def statements(self) -> list[Statement]:
        """The compliance statements that tests judge."""
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
        """Creates a run of the tests that match, which waits for its rig and then runs.

        With `lease` (what `reserve` gave) it runs under that lease, on the lease's rig; without, under that by which you
        hold the rig, unless `own_lease` has it wait for one of its own. `priority` is "low", "normal" or "high". After
        `wait_at_most_s` in the queue it ends without having begun. What is sent again after an error is the same run.
        """
        under = _ask.named("leases", lease) if lease else ""
        request = _ask.create_run(rig, tests, seed, parameters, exit_first, under, priority, own_lease, wait_at_most_s)
        return Run(self, self._patiently(lambda: self._call(self._runs.CreateRun, request)).run)

    def get_run(self, name: str) -> Run:
        """A run by its name, `runs/ID` or `ID`."""
        request = run_pb2.GetRunRequest(name=_ask.named("runs", name))
        return Run(self, self._call(self._runs.GetRun, request).run)

    def runs(self, filter: str = "", page_size: int = 100) -> Iterator[Run]:
        """The runs that are kept, the newest first: `rig=NAME AND outcome=FAIL`. Pages are fetched as they are needed.

        Their verdicts are without observations; `refresh` brings those.
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
        """Asks for a rig, by name or by labels. The lease may be PENDING: `with` and `Lease.wait` wait for its rig."""
        request = _ask.create_lease(rig, labels, lasts_s, priority)
        return Lease(self, self._patiently(lambda: self._call(self._leases.CreateLease, request)).lease)

    def leases(self, ended: bool = False) -> list[Lease]:
        """The newest thousand leases that are held or waited for; with `ended` those that are over, too."""
        request = lease_pb2.ListLeasesRequest(ended=ended, page_size=1000)
        return [Lease(self, lease) for lease in self._call(self._leases.ListLeases, request).leases]

    def renew(self, lease: Lease | str, lasts_s: int) -> Lease:
        """Has a lease last so long from now on."""
        request = lease_pb2.RenewLeaseRequest(name=_ask.named("leases", lease), lasts_s=_ask.seconds(lasts_s))
        return Lease(self, self._call(self._leases.RenewLease, request).lease)

    def end(self, lease: Lease | str) -> Lease:
        """Gives a lease back; a run under way stops at its next safe point."""
        request = lease_pb2.EndLeaseRequest(name=_ask.named("leases", lease))
        return Lease(self, self._patiently(lambda: self._call(self._leases.EndLease, request)).lease)

    def _call(self, call: Callable[..., Any], request: Any) -> Any:
        try:
            answer = call(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise errors.of(error, self.target) from error
        self._reached = True
        return answer

    def _patiently(self, call: Callable[[], T]) -> T:
        """Again, while what is wrong may pass. For calls that may be made twice."""
        backoff = errors.Backoff(self.patience_s)
        while True:
            try:
                return call()
            except errors.VerbatimError as error:
                if not self._reached:  # A wrong address does not get better by waiting.
                    raise
                wait_s = backoff.after(error)
            time.sleep(wait_s)
