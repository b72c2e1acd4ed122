"""The one run behind all items of a pytest session."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._proto.verbatim.v1 import event_pb2, verdict_pb2
from .client import PATIENCE_S, Client
from .errors import VerbatimError
from .lease import Lease
from .model import KnownDeviation, Outcome, Showed, Test, Verdict
from .run import Run

#: States in which a rig cannot be leased. A session would wait for the rig without a message.
_OUT_OF_USE = ("QUARANTINED", "DRAINING", "UNREACHABLE")


def parameter(given: str) -> tuple[str, int]:
    """Parses NAME=VALUE of an option."""
    name, equals, value = given.partition("=")
    try:
        if name and equals:
            return name, int(value, 0)
    except ValueError:
        pass
    raise ValueError(f"--verbatim-set {given}: NAME=NUMBER was expected")


#: Duration in seconds of the lease that the user's own tests share. A thread renews the lease. If pytest is killed, the
#: lease expires.
_LEASE_LASTS_S = 600

#: Timeout of a call in seconds after Ctrl-C, or after the daemon was lost.
_STOP_S = 5.0


class LeasedRig:
    """The rig of `--verbatim-rig`, leased to this pytest session."""

    def __init__(self, client: Client, lease: Lease) -> None:
        self.client, self.lease, self.name = client, lease, lease.rig

    def run(self, tests: str | Sequence[str], **options: Any) -> Run:
        """Creates a run of conformance tests under the session's lease; see `Client.run`."""
        return self.client.run(self.name, tests, lease=self.lease, **options)


class Session:
    """A run that begins when the first verdict is requested, with the tests that were selected until then."""

    def __init__(
        self,
        rig: str,
        server: str | None,
        patterns: Sequence[str],
        seed: int,
        parameters: Mapping[str, int],
        artifacts: str | None,
        wait_at_most_s: int | None,
    ) -> None:
        self.rig, self.patterns, self.seed, self.parameters = rig, patterns, seed, parameters
        self.client = Client(server)
        #: The tests that match the patterns.
        self.found: list[Test] = []
        #: Ids of the tests to run.
        self.tests: list[str] = []
        #: The run; None before it begins.
        self.run: Run | None = None
        #: An error besides the verdicts: a run that did not end, or a failed download of the bundle.
        self.trouble = ""
        self._artifacts, self._wait_at_most_s = artifacts, wait_at_most_s
        self._lease: Lease | None = None
        self._is_over = threading.Event()
        self._events: Iterator[event_pb2.RunEvent] = iter(())
        self._verdicts: dict[str, Verdict] = {}
        self._known: dict[str, tuple[KnownDeviation, ...]] = {}
        self._broken: VerbatimError | None = None

    @property
    def bundle(self) -> Path | None:
        """The directory of the run's bundle, downloaded when the session ends; None without artifacts or run."""
        if self._artifacts is None or self.run is None:
            return None
        return Path(self._artifacts, self.run.name.removeprefix("runs/")).absolute()

    def look(self) -> None:
        """Finds the tests that match. Raises VerbatimError or ValueError when rig or patterns are wrong."""
        self.found = self.client.tests(self.patterns)
        self.tests = [test.id for test in self.found]
        rigs = {rig.name: rig for rig in self.client.rigs()}
        rig = rigs.get(self.rig)
        if rig is None:
            raise ValueError(f"no rig {self.rig!r}; the daemon has {', '.join(rigs) or 'none'}")
        if rig.state in _OUT_OF_USE:
            raise ValueError(f"rig {self.rig} is {rig.state}: {rig.reason}")

    def lease(self) -> Lease:
        """Returns the lease that the user's own tests share. The first call waits for the rig."""
        if self._lease is None:
            lease = self.client.reserve(self.rig, lasts_s=_LEASE_LASTS_S)
            try:
                self._lease = lease.wait(self._wait_at_most_s)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    self.client._hurry(_STOP_S)
                with contextlib.suppress(VerbatimError):
                    lease.end()
                raise
            threading.Thread(target=self._renew, daemon=True).start()
        return self._lease

    def _renew(self) -> None:
        while self._lease is not None and not self._is_over.wait(_LEASE_LASTS_S / 3):
            try:
                self._lease.renew(_LEASE_LASTS_S)
            except VerbatimError:
                pass  # The next test under the lease reports the error.

    def verdict(self, test: str) -> Verdict:
        """Waits for a test's verdict. Raises VerbatimError when the run has failed; all later calls then raise the
        error."""
        if self._broken is not None:
            raise self._broken
        try:
            if self.run is None:
                self.run = self.client.run(
                    self.rig,
                    self.tests,
                    seed=self.seed,
                    parameters=self.parameters,
                    lease=self._lease or "",
                    wait_at_most_s=self._wait_at_most_s,
                )
                self._events = self.run.events()
            while test not in self._verdicts:
                event = next(self._events, None)
                if event is None:
                    return self._left(test)
                if event.HasField("test_ended"):
                    verdict = Verdict.of(event.test_ended.verdict)
                    self._knows(event.test_ended.known_deviations)
                    self._verdicts[verdict.test] = verdict
        except VerbatimError as error:
            self._broken = error
            raise
        return self._verdicts[test]

    def known(self, test: str) -> tuple[KnownDeviation, ...]:
        """Returns the known deviations in a test whose verdict has arrived."""
        return self._known.get(test, ())

    @property
    def not_as_known(self) -> list[str]:
        """A sentence for each known deviation that was not seen or has expired."""
        all_known = [known for of_test in self._known.values() for known in of_test]
        return [known.words for known in all_known if known.showed in (Showed.NOT_SEEN, Showed.EXPIRED)]

    def _knows(self, told: Iterable[verdict_pb2.KnownDeviation]) -> None:
        by_test: dict[str, list[KnownDeviation]] = {}
        for it in told:
            by_test.setdefault(it.test, []).append(KnownDeviation.of(it))
        for test, known in by_test.items():
            self._known.setdefault(test, tuple(known))

    def _left(self, test: str) -> Verdict:
        """Returns the verdict of a test whose verdict event did not arrive: a stopped run may still have the
        verdict."""
        assert self.run is not None
        for verdict in self.run.refresh().verdicts:
            self._verdicts.setdefault(verdict.test, verdict)
        self._knows(self.run.message.known_deviations)
        if test not in self._verdicts:
            why = f"{self.run.outcome.name} {self.run.reason}".rstrip()
            raise VerbatimError("ABORTED", f"{self.run.name} ended without a verdict of {test}: {why}")
        return self._verdicts[test]

    @property
    def unjudged(self) -> str:
        """The reason if the run has verdicts and all of them are NOT_APPLICABLE or SKIPPED; else an empty string."""
        verdicts = [self._verdicts[test] for test in self.tests if test in self._verdicts]
        if not verdicts or any(it.outcome not in (Outcome.NOT_APPLICABLE, Outcome.SKIPPED) for it in verdicts):
            return ""
        first = verdicts[0]
        why = f"{first.test} is {first.outcome.name}: {first.reason}"
        return f"none of {len(verdicts)} conformance tests was judged; {why}"

    def finish(self, stopped: bool = False) -> None:
        """Waits for the run to end and restore its device, and downloads its bundle. Ends the lease of own tests.

        Cancels a run with unread verdicts (after `-x` or Ctrl-C), so that the rig is free. After Ctrl-C (`stopped`), or
        when the daemon was lost, no call takes long.
        """
        if stopped or self._broken is not None:
            self.client._hurry(_STOP_S)
        try:
            if self.run is not None:
                if set(self.tests) - set(self._verdicts) and self.run.refresh().state != "ENDED":
                    self.run.cancel()
                self.run.wait(timeout_s=PATIENCE_S)
                if self.bundle is not None:
                    self.run.download(self.bundle)
            if self._lease is not None:
                self._is_over.set()
                self._lease.end()
        except (VerbatimError, OSError) as error:  # TimeoutError is an OSError.
            self.trouble = f"{self.run.name if self.run else self.rig}: {error}"
        except KeyboardInterrupt:
            self.trouble = f"{self.run.name if self.run else self.rig}: left before the daemon ended it"
