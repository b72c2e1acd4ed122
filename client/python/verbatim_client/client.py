"""The client for programs that block."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import grpc

from . import address, errors
from ._proto.verbatim.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    event_pb2,
    lease_pb2,
    lease_pb2_grpc,
    rig_pb2,
    rig_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)
from .errors import VerbatimError
from .model import Ended, Rig, Test

T = TypeVar("T")

#: For calls that answer at once, seconds.
TIMEOUT_S = 30.0
#: How long a watch that broke is taken up again, seconds.
PATIENCE_S = 60.0


class Client:
    """A daemon. Close it, or use it in `with`.

    `server` is `unix:/PATH`, `/PATH` or `https://HOST:PORT` (then with `ca`, `cert` and `key`, PEM files); without it
    VERBATIM_SERVER and its like are taken as `verbatim` does, else the local socket.
    """

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

    def _call(self, call: Callable[..., T], request: Any) -> T:
        try:
            return call(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise errors.of(error, self.target) from error

    def rigs(self) -> list[Rig]:
        """All rigs."""
        return [Rig.of(rig) for rig in self._call(self._rigs.ListRigs, rig_pb2.ListRigsRequest()).rigs]

    def tests(self, patterns: Sequence[str] = ()) -> list[Test]:
        """The catalogue's tests that match: ids, public names, statements or globs; all when none is given."""
        request = catalog_pb2.ListTestsRequest(patterns=patterns)
        return [Test.of(test) for test in self._call(self._catalog.ListTests, request).tests]

    def statements(self) -> list[catalog_pb2.Statement]:
        """The compliance statements that tests judge."""
        return list(self._call(self._catalog.ListStatements, catalog_pb2.ListStatementsRequest()).statements)

    def run(
        self,
        rig: str,
        patterns: Sequence[str] = (),
        *,
        seed: int = 0,
        parameters: Mapping[str, int] | None = None,
        exit_first: bool = False,
        lease: str = "",
    ) -> Run:
        """Creates a run, which waits for its rig and then runs. What is sent again after an error is the same run.

        With `lease` (a name of `reserve`) it runs under that lease.
        """
        spec = event_pb2.RunSpec(
            rig="" if lease else rig,
            patterns=patterns,
            parameters=parameters or {},
            seed=seed,
            exit_first=exit_first,
        )
        request = run_pb2.CreateRunRequest(request_id=str(uuid.uuid4()), spec=spec, lease=lease)
        return Run(self, self._patiently(lambda: self._call(self._runs.CreateRun, request)).run)

    def get_run(self, name: str) -> Run:
        """A run by its name, `runs/ID` or `ID`."""
        name = name if name.startswith("runs/") else f"runs/{name}"
        return Run(self, self._call(self._runs.GetRun, run_pb2.GetRunRequest(name=name)).run)

    def runs(self, filter: str = "", page_size: int = 100) -> Iterator[Run]:
        """The runs that are kept, the newest first: `rig=NAME AND outcome=FAIL`."""
        token = ""
        while True:
            request = run_pb2.ListRunsRequest(page_size=page_size, page_token=token, filter=filter)
            page = self._call(self._runs.ListRuns, request)
            yield from (Run(self, run) for run in page.runs)
            token = page.next_page_token
            if not token:
                return

    def reserve(self, rig: str = "", *, labels: Sequence[str] = (), lasts_s: int = 3600) -> lease_pb2.Lease:
        """Asks for a rig, by name or by labels, and returns the lease as it is: perhaps PENDING."""
        request = lease_pb2.CreateLeaseRequest(
            request_id=str(uuid.uuid4()), rig=rig, labels=labels, lasts_s=lasts_s
        )
        return self._patiently(lambda: self._call(self._leases.CreateLease, request)).lease

    def leases(self, ended: bool = False) -> list[lease_pb2.Lease]:
        """The leases that are held or waited for; with `ended` those that are over, too."""
        request = lease_pb2.ListLeasesRequest(ended=ended, page_size=1000)
        return list(self._call(self._leases.ListLeases, request).leases)

    def renew(self, lease: str, lasts_s: int) -> lease_pb2.Lease:
        """Has a lease last so long from now on."""
        return self._call(self._leases.RenewLease, lease_pb2.RenewLeaseRequest(name=lease, lasts_s=lasts_s)).lease

    def end(self, lease: str) -> lease_pb2.Lease:
        """Gives a lease back."""
        return self._call(self._leases.EndLease, lease_pb2.EndLeaseRequest(name=lease)).lease

    def _patiently(self, call: Callable[[], T]) -> T:
        """Again, while what is wrong may pass."""
        until = time.monotonic() + PATIENCE_S
        wait = 0.1
        while True:
            try:
                return call()
            except errors.VerbatimError as error:
                if error.code not in errors.PASSING or time.monotonic() + wait > until:
                    raise
            time.sleep(wait)
            wait = min(wait * 2, 5.0)


class Run:
    """A run at a daemon."""

    def __init__(self, client: Client, message: run_pb2.Run) -> None:
        self._client = client
        #: The daemon's message, as it last came.
        self.message = message

    @property
    def name(self) -> str:
        """`runs/ID`."""
        return self.message.name

    @property
    def state(self) -> str:
        """QUEUED, RUNNING or ENDED, as it last came."""
        return event_pb2.RunState.Name(self.message.state).removeprefix("RUN_STATE_")

    def events(self, cursor: int = 0) -> Iterator[event_pb2.RunEvent]:
        """What happens in the run, from its beginning (or behind `cursor`) to its end.

        A connection that breaks is taken up again where it broke, for a minute.
        """
        until = time.monotonic() + PATIENCE_S
        wait = 0.1
        while True:
            request = run_pb2.WatchRunRequest(name=self.name, cursor=cursor)
            try:
                for answer in self._client._runs.WatchRun(request):
                    cursor = answer.event.cursor
                    until, wait = time.monotonic() + PATIENCE_S, 0.1
                    yield answer.event
                return
            except grpc.RpcError as error:
                ours = errors.of(error, self._client.target)
                if ours.code not in errors.PASSING or time.monotonic() + wait > until:
                    raise ours from error
            time.sleep(wait)
            wait = min(wait * 2, 5.0)

    def wait(self) -> Ended:
        """Waits for the run's end."""
        for _ in self.events():
            pass
        request = run_pb2.GetRunRequest(name=self.name)
        self.message = self._client._patiently(lambda: self._client._call(self._client._runs.GetRun, request)).run
        return Ended.of(self.message)

    def cancel(self) -> None:
        """Has the daemon stop the run; the device is restored first. `wait` tells when that is done."""
        request = run_pb2.CancelRunRequest(name=self.name)
        self.message = self._client._call(self._client._runs.CancelRun, request).run

    def artifacts(self) -> list[str]:
        """The names of the files of the run's bundle."""
        request = run_pb2.ListArtifactsRequest(name=self.name)
        answer = self._client._call(self._client._runs.ListArtifacts, request)
        return [artifact.name for artifact in answer.artifacts]

    def read(self, artifact: str) -> bytes:
        """A file of the run's bundle."""
        request = run_pb2.ReadArtifactRequest(name=self.name, artifact=artifact)
        try:
            return b"".join(part.data for part in self._client._runs.ReadArtifact(request))
        except grpc.RpcError as error:
            raise errors.of(error, self._client.target) from error

    def download(self, directory: str | os.PathLike[str]) -> Path:
        """Writes the run's bundle into a directory that is new or empty, for `verbatim judge` and `verbatim verify`."""
        place = Path(directory)
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise FileExistsError(f"{place} is not empty; a bundle is never written over")
        # The manifest comes last: a download that is cut is not taken for a whole bundle.
        for name in sorted(self.artifacts(), key=lambda name: (name == "manifest.json", name)):
            if Path(name).name != name or name in (".", ".."):
                raise VerbatimError("DATA_LOSS", f"{self.name}: the daemon names a file {name!r}, which is no plain name")
            (place / name).write_bytes(self.read(name))
        return place
