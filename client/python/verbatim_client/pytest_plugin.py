"""pytest --verbatim-rig=RIG: each conformance test is an item of pytest.

All items are one run at the daemon, under one lease. PASS passes; FAIL fails with its findings; NOT_APPLICABLE and
SKIPPED are skipped with their reason. INCONCLUSIVE and ERROR are errors, because they leave conformance undecided. The
session is not green if no conformance test was judged, or if pytest was stopped: the item `run` is then an error with
the reason.

An own test shares the rig through the fixtures `verbatim_lease` and `verbatim_rig`.

With --verbatim-known (or `verbatim_known = true`) a FAIL that known deviations explain completely is an xfail. A PASS
of a test with a known deviation is a failure, as with `xfail(strict=True)`.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ._pytest_session import LeasedRig, Session, parameter
from .errors import VerbatimError
from .lease import Lease
from .model import Check, KnownDeviation, Outcome, Showed, Verdict

_RUN = pytest.StashKey[Session]()

#: The node id of an item or of a rig's collector.
_NODE = re.compile(r"verbatim\[(?P<rig>[^\]]+)\](::(?P<test>.+))?")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
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
    group.addoption(
        "--verbatim-wait-at-most", metavar="SECONDS", type=int, help="give up when the rig is not free after this time"
    )
    known = "a FAIL that is wholly known of such devices is an xfail, and a PASS against what is known is a failure"
    group.addoption("--verbatim-known", action="store_true", default=None, help=known)
    parser.addini("verbatim_known", f"as --verbatim-known: {known}", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Makes the session of the rig."""
    config.addinivalue_line("markers", "verbatim: a conformance test that a daemon of Verbatim carries out")
    option = config.getoption
    rig, named = _from_node_ids(config)
    rig = rig or option("--verbatim-rig")
    if rig is None:
        return
    if not rig.removeprefix("rigs/").strip():
        raise pytest.UsageError("verbatim: --verbatim-rig has no value: name a rig (`verbatim rigs`), or omit it")
    # Each worker of pytest-xdist would make its own run, and the runs would wait for the same rig.
    if option("numprocesses", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError("verbatim: all conformance tests are one run on one rig: leave -n out")
    try:
        config.stash[_RUN] = Session(
            rig=rig.removeprefix("rigs/"),
            server=option("--verbatim-server"),
            patterns=named or option("--verbatim-tests"),
            seed=option("--verbatim-seed"),
            parameters=dict(parameter(given) for given in option("--verbatim-set")),
            artifacts=option("--verbatim-artifacts"),
            wait_at_most_s=option("--verbatim-wait-at-most"),
        )
    except (VerbatimError, ValueError) as error:
        raise pytest.UsageError(f"verbatim: {error}") from error
    # The default action of SIGTERM would leave no report, and the run at the daemon would continue.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _from_node_ids(config: pytest.Config) -> tuple[str | None, list[str]]:
    """Takes the node ids of our items from the command line, because pytest would look for files with these names.

    Returns the rig and the tests that they name."""
    # `pytest --help` sets no arguments.
    ours = [found for found in map(_NODE.fullmatch, getattr(config, "args", ())) if found]
    if not ours:
        return None, []
    rigs = {found["rig"] for found in ours}
    if config.getoption("--verbatim-rig"):
        rigs.add(config.getoption("--verbatim-rig").removeprefix("rigs/"))
    if len(rigs) > 1:
        raise pytest.UsageError(f"verbatim: expected one rig, seen {', '.join(sorted(rigs))}: name one rig at a time")
    config.args[:] = [given for given in config.args if not _NODE.fullmatch(given)]
    whole_rig = any(found["test"] is None for found in ours)
    return rigs.pop(), [] if whole_rig else [found["test"] for found in ours]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the connection."""
    ours = config.stash.get(_RUN, None)
    if ours is not None:
        if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ours.client.close()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Reports the rig, and the seed that repeats the run."""
    ours = config.stash.get(_RUN, None)
    return None if ours is None else f"verbatim: rig {ours.rig} at {ours.client.target}, seed {ours.seed}"


def pytest_collection(session: pytest.Session) -> None:
    """Fetches the tests from the daemon, so that wrong options are reported before the run."""
    ours = session.config.stash.get(_RUN, None)
    if ours is not None:
        try:
            ours.look()
        except (VerbatimError, ValueError) as error:
            ours.trouble = str(error)
            raise pytest.UsageError(f"verbatim: {error}") from error
        for statement in sorted({statement for test in ours.found for statement in map(_mark, test.statements)}):
            session.config.addinivalue_line("markers", f"{statement}: a conformance test that judges this statement")


# This hook must run first, so that -k, -m, --deselect and --lf also select among our items.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds our items after the items of test files."""
    ours = config.stash.get(_RUN, None)
    if ours is not None:
        collector = _Collector.from_parent(session, name=f"verbatim[{ours.rig}]", nodeid=f"verbatim[{ours.rig}]")
        ours_too = list(collector.collect())
        # pytest counts collected items by these reports.
        config.hook.pytest_collectreport(report=pytest.CollectReport(collector.nodeid, "passed", None, ours_too))
        items.extend(ours_too)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stores the selected tests for the run."""
    ours = session.config.stash.get(_RUN, None)
    if ours is not None:
        ours.tests = [item.name for item in session.items if isinstance(item, _Item)]


# This hook must run before that of pytest's JUnit report, which writes the file.
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Waits for the run's end or cancels the run, and downloads the bundle. Adds an error to the reports when they
    would look green although the tests did not end or nothing was judged."""
    ours = session.config.stash.get(_RUN, None)
    if ours is None or session.config.getoption("collectonly"):
        return
    ours.finish(stopped=exitstatus == pytest.ExitCode.INTERRUPTED)
    if ours.trouble and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    elif ours.unjudged and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
    why = ours.trouble or ours.unjudged or _ENDS.get(exitstatus, "")
    if why:
        nodeid = f"verbatim[{ours.rig}]::run"
        told = _Told(f"ERROR run\n  {why}")
        report = pytest.TestReport(nodeid, ("verbatim", None, "run"), {}, "failed", told, "setup")
        session.config.hook.pytest_runtest_logreport(report=report)


#: The reason of an end at which a report has no failure.
_ENDS = {
    pytest.ExitCode.INTERRUPTED: "pytest was stopped (Ctrl-C, SIGTERM or a collection error): not all tests ran",
    pytest.ExitCode.INTERNAL_ERROR: "pytest failed: not all tests ran",
    pytest.ExitCode.USAGE_ERROR: "no test ran: pytest was called with wrong options, or the rig cannot be used",
    pytest.ExitCode.NO_TESTS_COLLECTED: "no test ran: none was selected",
}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the place of the bundle, and errors of the run besides its verdicts."""
    ours = config.stash.get(_RUN, None)
    if ours is None or not ours.run:
        return
    terminalreporter.section("verbatim")
    terminalreporter.line(f"{ours.run.name} on {ours.rig}: {ours.run.state} {ours.run.outcome.name} {ours.run.reason}".rstrip())
    if ours.bundle is not None:
        terminalreporter.line(f"bundle {ours.bundle}")
    for sentence in ours.not_as_known:
        terminalreporter.line(f"not as the known deviations have it: {sentence}", yellow=True)
    if ours.trouble:
        terminalreporter.line(f"ERROR {ours.trouble}", red=True)


@pytest.fixture(scope="session")
def verbatim_lease(request: pytest.FixtureRequest) -> Lease:
    """The session's lease of the rig of --verbatim-rig. The conformance tests run under the same lease."""
    ours = request.config.stash.get(_RUN, None)
    if ours is None:
        pytest.skip("needs --verbatim-rig")
    return ours.lease()


@pytest.fixture(scope="session")
def verbatim_rig(request: pytest.FixtureRequest, verbatim_lease: Lease) -> LeasedRig:
    """The rig of --verbatim-rig under the session's lease: `name`, `client`, `lease`, and `run(tests)`."""
    return LeasedRig(request.config.stash[_RUN].client, verbatim_lease)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Gives pytest's short summary the reason of a verdict."""
    report = (yield).get_result()
    if isinstance(item, _Item) and call.excinfo is not None and call.excinfo.errisinstance(pytest.fail.Exception):
        report.longrepr = _Told(str(report.longrepr))


class _Told:
    """The text of a failed item. The second line is the reason; pytest's short summary reads it from `reprcrash`."""

    def __init__(self, text: str) -> None:
        self._text = text
        message = " ".join(line.strip() for line in text.splitlines()[1:2]) or text
        self.reprcrash = SimpleNamespace(path="verbatim", lineno=0, message=message)

    def __str__(self) -> str:
        return self._text

    def toterminal(self, out: Any) -> None:
        """Writes the whole text."""
        out.line(self._text)


def _mark(statement: str) -> str:
    """Returns the marker of a statement: its id without characters that `-m` does not accept."""
    return re.sub(r"[^\w.-]+", "-", statement).strip("-")


class _Collector(pytest.Collector):
    """The collector of a rig's items."""

    def collect(self) -> Iterator[pytest.Item]:
        for test in self.config.stash[_RUN].found:
            item = _Item.from_parent(self, name=test.id)
            for statement in test.statements:
                item.add_marker(_mark(statement))
            yield item


class _Item(pytest.Item):
    """A conformance test."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.add_marker("verbatim")
        self.verdict: Verdict | None = None
        self.known: tuple[KnownDeviation, ...] = ()

    def setup(self) -> None:
        """Waits for the verdict. Fails if the verdict leaves conformance undecided; pytest reports this failure as an
        error."""
        ours = self.config.stash[_RUN]
        try:
            self.verdict = ours.verdict(self.name)
            self.known = ours.known(self.name)
        except VerbatimError as error:
            pytest.fail(f"ERROR {self.name}\n  {error}", pytrace=False)
        finally:
            if ours.run is not None:
                self._tell("run", ours.run.name)
            if ours.bundle is not None:
                self._tell("bundle", str(ours.bundle))
        self.user_properties.append(("verbatim_outcome", self.verdict.outcome.name))
        self.user_properties += [("verbatim_known", f"{known.id} {known.showed.name}") for known in self.known]
        if self.verdict.outcome in (Outcome.INCONCLUSIVE, Outcome.ERROR, Outcome.UNSPECIFIED):
            pytest.fail(words(self.verdict), pytrace=False)

    def runtest(self) -> None:
        """Passes, fails or skips according to the verdict."""
        verdict = self.verdict
        assert verdict is not None
        if verdict.outcome in (Outcome.NOT_APPLICABLE, Outcome.SKIPPED):
            pytest.skip(f"{verdict.outcome.name}: {verdict.reason}")
        if verdict.outcome is not Outcome.PASS:
            self._is_known(verdict)
            pytest.fail(words(verdict), pytrace=False)
        gone = [known for known in self.known if known.showed is Showed.NOT_SEEN]
        if gone and self._goes_by_what_is_known():
            told = "\n  ".join(known.words for known in gone)
            pytest.fail(f"PASS {verdict.test}, where a FAIL was expected\n  {told}", pytrace=False)

    def _is_known(self, verdict: Verdict) -> None:
        """Ends the item as xfail if unexpired known deviations explain the whole FAIL, unless --runxfail is set."""
        expected = [known for known in self.known if known.showed is Showed.SEEN and known.explains_all]
        if verdict.outcome is Outcome.FAIL and expected and self._goes_by_what_is_known():
            pytest.xfail("; ".join(f"{known.id}: {known.reason}" for known in expected))

    def _goes_by_what_is_known(self) -> bool:
        # With --runxfail, known deviations count neither for a FAIL nor for a PASS.
        option = self.config.getoption
        wanted = option("--verbatim-known") or self.config.getini("verbatim_known")
        return bool(wanted) and not option("runxfail", False)

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Returns the head of the item's report."""
        return "verbatim", None, self.name

    def _tell(self, what: str, value: str) -> None:
        self.user_properties.append((f"verbatim_{what}", value))
        self.add_report_section("setup", f"verbatim {what}", value)


#: Findings that differ only in numbers, and events of a finding, of which a failure shows only the first or last few.
#: `verbatim run` shows as many.
_ALIKE, _EVIDENCE = 3, 3


def words(verdict: Verdict) -> str:
    """Formats a verdict other than PASS: statement, expected, seen and the packets."""
    cause = "" if verdict.cause.value == 0 else f", cause {verdict.cause.name}"
    lines = [f"{verdict.outcome.name} {verdict.test}{cause}", f"  {verdict.reason}"]
    causes = [check for check in verdict.findings if check.follows_from is None]
    alike: dict[str, list[Check]] = {}
    for check in causes:
        text = "|".join((check.statement, check.about, check.expected, check.seen))
        alike.setdefault(re.sub(r"\d+", "#", text), []).append(check)
    for group in alike.values():
        lines += [line for check in group[:_ALIKE] for line in _finding(check)]
        if len(group) > _ALIKE:
            lines.append(f"  and {len(group) - _ALIKE} more like these")
    if len(causes) < len(verdict.findings):
        lines.append(f"  {len(verdict.findings) - len(causes)} more follow from these")
    return "\n".join(lines)


def _finding(check: Check) -> Sequence[str]:
    left_out = len(check.evidence) - _EVIDENCE
    return [
        f"  {check.statement}: {check.about}",
        f"    expected  {check.expected}",
        f"    seen      {check.seen}",
        *(f"    given     {given}" for given in check.given),
        *([f"    evidence  {left_out} earlier events; `verbatim explain` shows them"] if left_out > 0 else []),
        *(f"    evidence  {evidence}" for evidence in check.evidence[-_EVIDENCE:]),
    ]
