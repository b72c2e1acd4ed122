"""Known deviations over the API and in pytest, on a device whose agent identifies itself as Linux rxe 6.1."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from verbatim_client import Client, Outcome, Showed

from .conftest import ROOT, serving

PYTHON = ROOT / "client" / "python"
RIGS = """config_version = 1

[[rig]]
name = "rxe"
kind = "packet"
socket = { local = "tester.sock", remote = "device.sock" }
mac = "02:00:00:00:00:02"
ip = "10.0.0.2"
agent = "unix:agent.sock"
"""
# Tests of a known deviation that this device has, of a known deviation that this device lacks, and of an unknown
# deviation.
KNOWN, MENDED, NEWS = "c09-local-errors", "c09-psn-sequence", "c09-icrc"

OnRxe = Callable[..., pytest.RunResult]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of a daemon whose rig is the device of rxe_like.py."""
    place = tmp_path_factory.mktemp("k")
    command = [sys.executable, Path(__file__).with_name("rxe_like.py"), "--listen", f"unix:{place}/agent.sock"]
    command += ["--socket", place / "device.sock", "--peer", place / "tester.sock", "--deviation", "icrc-ignored"]
    environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as agent:
        try:
            assert agent.stderr is not None
            said = agent.stderr.readline()
            assert "listening on" in said, said + agent.stderr.read()
            threading.Thread(target=agent.stderr.read, daemon=True).start()
            with serving(place, rigs=RIGS.replace("agent.sock", f"{place}/agent.sock")) as address:
                yield address
        finally:
            agent.terminate()


@pytest.fixture
def pytest_on_rxe(pytester: pytest.Pytester, lab: str, monkeypatch: pytest.MonkeyPatch) -> OnRxe:
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))

    def run(*options: str) -> pytest.RunResult:
        plug_in = ("-p", "verbatim_client.pytest_plugin", f"--verbatim-server={lab}", "--verbatim-rig=rxe", "-rA")
        return pytester.runpytest_subprocess(*plug_in, *options)

    return run


def test_a_run_and_its_events_tell_what_is_known_and_the_verdict_stays(lab: str) -> None:
    with Client(lab) as client:
        run = client.run("rxe", [KNOWN, MENDED])
        told = [known for event in run.events() for known in event.test_ended.known_deviations]
        ended = run.wait()
        assert ended.outcome is Outcome.FAIL and ended.verdict(KNOWN).outcome is Outcome.FAIL
        assert [(it.test, it.showed, it.explains_all) for it in ended.known_deviations] == [
            (KNOWN, Showed.SEEN, True),
            (MENDED, Showed.NOT_SEEN, False),
        ]
        assert told == [it.message for it in ended.known_deviations]
        assert ended.known_deviations[0].id == "rxe-receive-in-error-state" and ended.known_deviations[0].reason
        listed = next(client.runs("rig=rxe"))
        assert not listed.message.known_deviations


def test_without_the_option_a_fail_is_a_failure_and_the_summary_says_what_is_not_as_known(pytest_on_rxe: OnRxe) -> None:
    done = pytest_on_rxe(f"--verbatim-tests={KNOWN}", f"--verbatim-tests={MENDED}")
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines([f"not as the known deviations have it: {MENDED} passed, though Linux rxe*"])


def test_what_is_known_is_an_xfail_and_leaves_the_session_green(pytest_on_rxe: OnRxe, pytester: pytest.Pytester) -> None:
    done = pytest_on_rxe(f"--verbatim-tests={KNOWN}", "--verbatim-known", "--junit-xml=report.xml")
    done.assert_outcomes(xfailed=1)
    assert done.ret == 0
    done.stdout.fnmatch_lines([f"XFAIL *{KNOWN}*rxe-receive-in-error-state: *"])
    case = ElementTree.parse(pytester.path / "report.xml").getroot().find(".//testcase")
    assert case is not None
    told = {it.get("name"): it.get("value") for it in case.findall(".//property")}
    assert told["verbatim_outcome"] == "FAIL" and told["verbatim_known"] == "rxe-receive-in-error-state SEEN"


def test_a_pass_against_what_is_known_is_a_failure_and_so_is_what_is_not_known(
    pytest_on_rxe: OnRxe, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\nverbatim_known = true\n")
    done = pytest_on_rxe(*(f"--verbatim-tests={test}" for test in (KNOWN, MENDED, NEWS)))
    done.assert_outcomes(xfailed=1, failed=2)
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        [f"FAIL {NEWS}, cause DUT", f"PASS {MENDED}, where a FAIL was expected", f"  {MENDED} passed, though Linux rxe*"]
    )


def test_runxfail_takes_all_as_if_nothing_were_known(pytest_on_rxe: OnRxe) -> None:
    tests = (f"--verbatim-tests={test}" for test in (KNOWN, MENDED))
    pytest_on_rxe(*tests, "--verbatim-known", "--runxfail").assert_outcomes(failed=1, passed=1)


TOLD = """
from verbatim_client import KnownDeviation, Showed, _pytest_session

known = KnownDeviation("c14-016-get-protect-2", "entry", Showed.{showed}, {explains_all}, "C14-16", "why", "words", None)
_pytest_session.Session.known = lambda self, test: (known,)
"""


@pytest.mark.parametrize(
    ("showed", "explains_all", "excused"),
    [("SEEN", True, True), ("SEEN", False, False), ("EXPIRED", False, False), ("EXPIRED", True, False)],
)
def test_only_what_was_seen_and_explains_all_is_excused(
    pytester: pytest.Pytester, daemon: str, monkeypatch: pytest.MonkeyPatch, showed: str, explains_all: bool, excused: bool
) -> None:
    """Replaces the daemon's known deviations, because no entry of the current catalogue has expired."""
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    pytester.makeconftest(TOLD.format(showed=showed, explains_all=explains_all))
    plug_in = ("-p", "verbatim_client.pytest_plugin", f"--verbatim-server={daemon}", "--verbatim-rig=broken")
    done = pytester.runpytest_subprocess(*plug_in, "--verbatim-tests=c14-016-get-protect-2", "--verbatim-known")
    done.assert_outcomes(**({"xfailed": 1} if excused else {"failed": 1}))
