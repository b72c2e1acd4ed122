"""pytest --verbatim-rig=RIG: each conformance test is an item with its verdict.

All items are one run at the daemon, under one lease. PASS passes; FAIL fails with its findings; NOT_APPLICABLE and SKIPPED
are skipped with their reason; INCONCLUSIVE and ERROR are failures that say so, since what is not known is no pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .client import Client
from .model import Ended, Outcome, Verdict

_RUN = pytest.StashKey["_Session"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("verbatim", "conformance tests of RDMA devices")
    group.addoption("--verbatim-rig", metavar="RIG", help="run conformance tests on this rig; without it there are none")
    group.addoption("--verbatim-server", metavar="ADDR", help="the daemon; else VERBATIM_SERVER, else the local socket")
    group.addoption(
        "--verbatim-tests",
        metavar="PATTERN",
        action="append",
        default=[],
        help="ids, public names, statements or globs; may be repeated; all tests when not given",
    )
    group.addoption("--verbatim-seed", metavar="N", type=int, default=0, help="seed of all random choices (0)")
    group.addoption(
        "--verbatim-set", metavar="NAME=VALUE", action="append", default=[], help="a parameter of tests; may be repeated"
    )
    group.addoption(
        "--verbatim-artifacts", metavar="DIR", help="download the run's bundle into DIR/RUN-ID, for `verbatim judge`"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the session of a rig."""
    config.addinivalue_line("markers", "verbatim: a conformance test that a daemon of Verbatim carries out")
    if config.getoption("--verbatim-rig"):
        config.stash[_RUN] = _Session(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the connection; a run that was not waited for is cancelled, so that the rig is free."""
    session = config.stash.get(_RUN, None)
    if session is not None:
        session.close()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Which rig."""
    session = config.stash.get(_RUN, None)
    return None if session is None else f"verbatim: rig {session.rig} at {session.client.target}"


def pytest_collection(session: pytest.Session) -> None:
    """Asks the daemon which tests there are, so that what is wrong with the options is said before anything runs."""
    ours = session.config.stash.get(_RUN, None)
    if ours is not None:
        ours.look()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the items behind those of files; -k and -m choose among both."""
    ours = config.stash.get(_RUN, None)
    if ours is None:
        return
    collector = _Collector.from_parent(session, name=f"verbatim[{ours.rig}]", nodeid=f"verbatim[{ours.rig}]")
    added = list(collector.collect())
    keyword = config.getoption("keyword", "")
    if keyword:
        from _pytest.mark import KeywordMatcher
        from _pytest.mark.expression import Expression

        expression = Expression.compile(keyword)
        added = [item for item in added if expression.evaluate(KeywordMatcher.from_item(item))]
    ours.tests = [item.name for item in added]
    items.extend(added)


class _Session:
    """The one run behind all items."""

    def __init__(self, config: pytest.Config) -> None:
        self.rig: str = config.getoption("--verbatim-rig")
        self.client = Client(config.getoption("--verbatim-server"))
        self.patterns: list[str] = config.getoption("--verbatim-tests")
        self.seed: int = config.getoption("--verbatim-seed")
        self.parameters = dict(_parameter(given) for given in config.getoption("--verbatim-set"))
        self.artifacts: str | None = config.getoption("--verbatim-artifacts")
        self.tests: list[str] = []
        self.bundle: Path | None = None
        self._events: Iterator[Any] | None = None
        self._verdicts: dict[str, Verdict] = {}
        self._run: Any = None
        self._ended: Ended | None = None

    def look(self) -> None:
        """The tests that match; a usage error where rig or patterns are wrong, or no daemon is there."""
        from .errors import VerbatimError

        try:
            self.tests = [test.id for test in self.client.tests(self.patterns)]
            rigs = [rig.name for rig in self.client.rigs()]
        except VerbatimError as error:
            raise pytest.UsageError(f"verbatim: {error}") from error
        if self.rig not in rigs:
            raise pytest.UsageError(f"verbatim: no rig {self.rig!r}; the daemon has {', '.join(rigs) or 'none'}")

    def verdict(self, test: str) -> Verdict:
        """Waits for a test's verdict; the first call begins the run."""
        if self._events is None:
            self._run = self.client.run(self.rig, self.tests, seed=self.seed, parameters=self.parameters)
            self._events = self._run.events()
        while test not in self._verdicts:
            event = next(self._events, None)
            if event is None:
                ended = self.ended()
                raise RuntimeError(f"{ended.name} ended without a verdict of {test}: {ended.outcome.name} {ended.reason}")
            if event.HasField("test_ended"):
                verdict = Verdict.of(event.test_ended.verdict)
                self._verdicts[verdict.test] = verdict
        return self._verdicts[test]

    def ended(self) -> Ended:
        """The run's end, with its bundle where one is wanted."""
        if self._ended is None:
            self._ended = self._run.wait()
            if self.artifacts:
                self.bundle = self._run.download(Path(self.artifacts, self._run.name.removeprefix("runs/")))
        return self._ended

    @property
    def name(self) -> str:
        """The run's name; empty before it began."""
        return "" if self._run is None else self._run.name

    def close(self) -> None:
        """Cancels what nobody waits for any more."""
        from .errors import VerbatimError

        if self._run is not None and self._ended is None:
            try:
                self._run.cancel()
            except VerbatimError:
                pass  # It is over, or the daemon is away: its lease ends then by itself.
        self.client.close()


def _parameter(given: str) -> tuple[str, int]:
    name, equals, value = given.partition("=")
    try:
        if equals:
            return name, int(value, 0)
    except ValueError:
        pass
    raise pytest.UsageError(f"--verbatim-set {given}: NAME=NUMBER was expected")


class _Collector(pytest.Collector):
    def collect(self) -> Iterator[pytest.Item]:
        session = self.config.stash[_RUN]
        for test in session.tests:
            yield _Item.from_parent(self, name=test)


class VerdictError(Exception):
    """A verdict that is no pass."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class _Item(pytest.Item):
    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.add_marker("verbatim")
        self.begun = time.monotonic()

    def runtest(self) -> None:
        session = self.config.stash[_RUN]
        verdict = session.verdict(self.name)
        self.user_properties.append(("verbatim_outcome", verdict.outcome.name))
        self.user_properties.append(("verbatim_run", session.name))
        if self.name == session.tests[-1]:
            session.ended()
            if session.bundle is not None:
                self.user_properties.append(("verbatim_bundle", str(session.bundle)))
                self.add_report_section("call", "verbatim bundle", str(session.bundle))
        self.add_report_section("call", "verbatim run", session.name)
        if verdict.outcome in (Outcome.NOT_APPLICABLE, Outcome.SKIPPED):
            pytest.skip(f"{verdict.outcome.name}: {verdict.reason}")
        if verdict.outcome is not Outcome.PASS:
            raise VerdictError(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, VerdictError):
            return words(excinfo.value.verdict)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[str, int | None, str]:
        return "verbatim", None, self.name


def words(verdict: Verdict) -> str:
    """What a verdict that is no pass says: statement, expected, seen and the packets."""
    cause = "" if verdict.cause.value == 0 else f", cause {verdict.cause.name}"
    lines = [f"{verdict.outcome.name} {verdict.test}{cause}"]
    if not verdict.findings or verdict.outcome is Outcome.ERROR:
        lines.append(f"  {verdict.reason}")
    for check in verdict.findings:
        lines += [
            f"  {check.statement}: {check.about}",
            f"    expected  {check.expected}",
            f"    seen      {check.seen}",
            *(f"    evidence  {evidence}" for evidence in check.evidence),
        ]
    return "\n".join(lines)
