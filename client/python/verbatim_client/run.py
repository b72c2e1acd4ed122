"""A run at a daemon, for the blocking client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import grpc

from . import _ask, errors
from ._proto.verbatim.v1 import event_pb2, run_pb2
from .address import PathLike
from .errors import VerbatimError
from .model import Cause, Ended, Outcome, Verdict, cause, outcome
from .record import Record

if TYPE_CHECKING:
    from .client import Client


class RunFacts:
    """The state of a run, as last received from the daemon; `refresh` and `wait` update it."""

    def __init__(self, message: run_pb2.Run) -> None:
        #: The last message from the daemon.
        self.message = message

    def __repr__(self) -> str:
        return f"<{self.name} {self.state} {self.outcome.name}>"

    @property
    def name(self) -> str:
        """The resource name, `runs/ID`."""
        return self.message.name

    @property
    def rig(self) -> str:
        """The rig's name."""
        return self.message.spec.rig

    @property
    def state(self) -> str:
        """The state: QUEUED, RUNNING or ENDED."""
        return event_pb2.RunState.Name(self.message.state).removeprefix("RUN_STATE_")

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the run's tests; UNSPECIFIED before the first verdict."""
        return outcome(self.message.outcome)

    @property
    def cause(self) -> Cause:
        """The cause of the outcome."""
        return cause(self.message.cause)

    @property
    def reason(self) -> str:
        """The reason of the outcome, in a sentence."""
        return self.message.reason

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts so far, in order."""
        return tuple(Verdict.of(verdict) for verdict in self.message.verdicts)

    def _is_over(self) -> bool:
        return self.message.state == event_pb2.RUN_STATE_ENDED

    def _take(self, event: event_pb2.RunEvent) -> None:
        # Do not add verdicts from events: a second watch of the run would add them twice.
        if event.HasField("state_changed") and not self._is_over():
            changed = event.state_changed
            self.message.state, self.message.outcome = changed.state, changed.outcome
            self.message.cause, self.message.reason = changed.cause, changed.reason

    def _broke(self, target: str) -> VerbatimError:
        return VerbatimError("UNAVAILABLE", f"{target}: the stream of events ended before {self.name} did")


class Run(RunFacts):
    """A run. `with` cancels the run at the block's end if the run has not ended."""

    def __init__(self, client: Client, message: run_pb2.Run) -> None:
        super().__init__(message)
        self._client = client

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over() and not self.refresh()._is_over():
            self.cancel()

    def refresh(self) -> Run:
        """Fetches the state of the run from the daemon."""
        request = run_pb2.GetRunRequest(name=self.name)
        self.message = self._client._patiently(lambda: self._client._call(self._client._runs.GetRun, request)).run
        return self

    def events(self, cursor: int = 0) -> Iterator[event_pb2.RunEvent]:
        """Yields the events of the run, from its beginning (or after `cursor`) to its end.

        After a broken connection the iterator reconnects, with retries for the client's `patience_s`, and continues at
        the next event. """
        return self._watch(cursor, None)

    def _watch(self, cursor: int, until: float | None) -> Iterator[event_pb2.RunEvent]:
        backoff = errors.Backoff(self._client.patience_s)
        while True:
            left_s = None if until is None else max(0.0, until - time.monotonic())
            call = self._client._runs.WatchRun(run_pb2.WatchRunRequest(name=self.name, cursor=cursor), timeout=left_s)
            try:
                for answer in call:
                    cursor = answer.event.cursor
                    backoff.reset()
                    self._take(answer.event)
                    yield answer.event
                # A daemon that shuts down may end the stream without an error.
                if self._is_over() or self.refresh()._is_over():
                    return
                wait_s = backoff.after(self._broke(self._client.target))
            except grpc.RpcError as error:
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(f"{self.name} has not ended: {self.state}") from error
                wait_s = backoff.after(errors.of(error, self._client.target))
            finally:
                call.cancel()  # Ends the stream at the daemon if the caller leaves the loop early.
            time.sleep(wait_s)

    def wait(self, timeout_s: float | None = None) -> Ended:
        """Waits for the run's end. Raises TimeoutError after `timeout_s` seconds; the run then continues."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for _ in self._watch(0, until):
            pass
        return Ended.of(self.refresh().message)

    def cancel(self) -> None:
        """Requests the daemon to stop the run. The run restores its device and then ends; `wait` returns at the end."""
        request = run_pb2.CancelRunRequest(name=self.name)
        self.message = self._client._call(self._client._runs.CancelRun, request).run

    def artifacts(self) -> list[str]:
        """Returns the names of the files of the run's bundle."""
        request = run_pb2.ListArtifactsRequest(name=self.name)
        answer = self._client._patiently(lambda: self._client._call(self._client._runs.ListArtifacts, request))
        return [artifact.name for artifact in answer.artifacts]

    def read(self, artifact: str) -> bytes:
        """Returns a file of the run's bundle. The daemon makes `run.pcapng` on request."""
        return self._client._patiently(lambda: b"".join(self._chunks(artifact)))

    def record(self, test: str) -> Record:
        """Returns the record of one of the run's tests, by the test's id."""
        name = _ask.record_of(test, self.artifacts(), self.name)
        return Record.parse(self.read(name), f"{self.name}/{name}")

    def download(self, directory: PathLike) -> Path:
        """Writes the run's bundle into a directory that is new or empty, and checks the files against the manifest.

        `verbatim judge` and `verbatim verify` read the bundle. Raises FileExistsError when the directory is not empty.
        """
        place = _ask.empty(directory)
        for name in _ask.in_order(self.artifacts(), self.name):
            self._client._patiently(lambda: self._save(name, place / name))
        _ask.check_bundle(place, self.name)
        return place

    def _save(self, artifact: str, path: Path) -> None:
        with path.open("wb") as file:
            for chunk in self._chunks(artifact):
                file.write(chunk)

    def _chunks(self, artifact: str) -> Iterator[bytes]:
        request = run_pb2.ReadArtifactRequest(name=self.name, artifact=artifact)
        try:
            for part in self._client._runs.ReadArtifact(request):
                yield part.data
        except grpc.RpcError as error:
            raise errors.of(error, self._client.target) from error
