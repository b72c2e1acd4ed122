"""The plug-in in a separate pytest process, against a real daemon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from verbatim_client import Cause, Check, Client, Outcome, Verdict
from verbatim_client.pytest_plugin import words

from .conftest import ROOT, binary

OnRig = Callable[..., pytest.RunResult]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "client" / "python"))


def test_metadata_in_the_checkout_loads_the_plug_in_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = pytester.mkdir("verbatim_client.egg-info")
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: verbatim-client\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nverbatim = verbatim_client.pytest_plugin\n")
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}:{ROOT / 'client' / 'python'}")
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_subprocess("-p", "verbatim_client.pytest_plugin").assert_outcomes(passed=1)


@pytest.fixture
def pytest_on(pytester: pytest.Pytester, daemon: str) -> OnRig:
    def run(rig: str, *options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            "-p", "verbatim_client.pytest_plugin", f"--verbatim-server={daemon}", f"--verbatim-rig={rig}", "-rA", *options
        )

    return run


def newest(daemon: str, rig: str) -> list[str]:
    with Client(daemon) as client:
        return [run.name for run in client.runs(f"rig={rig}")]


def test_each_conformance_test_is_an_item_of_one_run(pytest_on: OnRig, daemon: str) -> None:
    before = newest(daemon, "broken")
    done = pytest_on("broken", "--verbatim-tests=c14-024-node-info", "--verbatim-tests=c14-016-get-protect-2")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        [
            "*FAIL c14-016-get-protect-2, cause DUT",
            "  C14-16: answer to SubnGet(PortInfo)",
            "*expected  no answer",
            "*seen      SubnGetResp*",
            "*evidence  *SubnGet*",
            "*verbatim run*",
            "runs/*",
        ]
    )
    assert done.ret == 1 and len(newest(daemon, "broken")) == len(before) + 1
    done.stdout.fnmatch_lines(["FAILED verbatim[[]broken]::c14-016-get-protect-2 - C14-16 answer to Subn*"])


def test_node_ids_can_be_pasted_back(pytest_on: OnRig, pytester: pytest.Pytester, daemon: str) -> None:
    pytester.makepyfile("def test_it(): assert False")
    ids = [f"verbatim[sound]::c14-024-node-{what}" for what in ("info", "type")]
    done = pytester.runpytest_subprocess("-p", "verbatim_client.pytest_plugin", f"--verbatim-server={daemon}", *ids)
    done.assert_outcomes(passed=2)
    refused = pytest_on("broken", *ids)
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*expected one rig, seen broken, sound*"])


def test_marks_choose_by_statement(pytest_on: OnRig) -> None:
    done = pytest_on("sound", "-m", "C14-21", "--strict-markers", "--collect-only", "-q")
    done.stdout.fnmatch_lines(["verbatim[[]sound]::c14-017-lease-zero", "*2/* tests collected*"])


def test_own_tests_and_conformance_tests_share_one_lease(
    pytest_on: OnRig, pytester: pytest.Pytester, daemon: str
) -> None:
    pytester.makepyfile("""
        def test_mine(verbatim_rig, verbatim_lease):
            assert verbatim_rig.lease is verbatim_lease and verbatim_lease.state == "ACTIVE"
            assert verbatim_rig.run("c14-024-node-type").wait().outcome.name == "PASS"
    """)
    pytest_on("held", "--verbatim-tests=c14-024-node-info").assert_outcomes(passed=2)
    with Client(daemon) as client:
        runs = list(client.runs("rig=held"))[:2]
        assert len({run.message.lease for run in runs}) == 1 and runs[0].message.lease
        assert not [lease for lease in client.leases() if lease.rig == "held"]
        with client.reserve("held"):
            done = pytest_on("held", "--verbatim-wait-at-most=1", "--verbatim-tests=c14-024-node-info")
    # The run uses the user's existing lease. The lease of the fixtures cannot begin.
    done.assert_outcomes(passed=1, errors=1)
    pytester.runpytest_subprocess("-p", "verbatim_client.pytest_plugin").assert_outcomes(skipped=1)


def test_evidence_is_capped_as_on_the_command_line() -> None:
    def check(block: int) -> Check:
        return Check("C14-24", f"block {block}", "0", str(block), tuple(f"#{n} event" for n in range(40)))

    verdict = Verdict("t", Outcome.FAIL, Cause.DUT, "why", findings=tuple(map(check, range(70))))
    text = words(verdict)
    assert text.count("block") == 3 and "and 67 more like these" in text
    assert text.count("#39 event") == 3 and "#36 event" not in text and len(text.splitlines()) < 30


def test_what_does_not_apply_is_skipped_with_its_reason(pytest_on: OnRig) -> None:
    done = pytest_on("sound", "--verbatim-tests=c16-port-counters", "--verbatim-seed=1")
    # The item `run` is the error: nothing was judged.
    done.assert_outcomes(skipped=1, errors=1)
    done.stdout.fnmatch_lines(["SKIPPED*NOT_APPLICABLE: *", "ERROR*run - none of 1 conformance tests was judged;*"])
    assert done.ret == 5


def test_a_device_that_is_never_ready_is_an_error_of_each_test_and_no_failure(pytest_on: OnRig) -> None:
    done = pytest_on("busy", "--verbatim-tests=c14-003-*", "--verbatim-tests=c14-016-get-protect-*")
    # Each test has a fresh model, so the run tries all tests.
    assert done.parseoutcomes() == {"errors": 5}
    done.stdout.fnmatch_lines(["INCONCLUSIVE c14-003-*, cause RIG", "*busy*"])
    assert done.ret == 1


def test_k_and_deselect_choose_what_the_run_takes(pytest_on: OnRig, daemon: str) -> None:
    before = len(newest(daemon, "sound"))
    done = pytest_on("sound", "-k", "lease-zero or node-info", "--deselect=verbatim[sound]::c14-017-lease-zero")
    assert done.parseoutcomes()["passed"] == 2
    done.stdout.fnmatch_lines(["collected * items / * deselected / 2 selected"])
    with Client(daemon) as client:
        runs = list(client.runs("rig=sound"))
    assert list(runs[0].message.tests) == ["c14-024-node-info", "c14-024-node-info-ports"] and len(runs) == before + 1


def test_the_bundle_is_downloaded_and_named(pytest_on: OnRig, pytester: pytest.Pytester) -> None:
    done = pytest_on(
        "broken",
        "--verbatim-tests=c14-016-get-protect-2",
        "--verbatim-tests=c14-024-node-info",
        "--verbatim-artifacts=kept",
        "--junit-xml=report.xml",
    )
    bundle = next((pytester.path / "kept").iterdir())
    done.stdout.fnmatch_lines(["*verbatim bundle*", str(bundle), f"bundle {bundle}"])
    assert subprocess.run([binary("verbatim"), "verify", bundle], capture_output=True).returncode == 0
    cases = ElementTree.parse(pytester.path / "report.xml").getroot().findall(".//testcase")
    told = [{it.get("name"): it.get("value") for it in case.findall(".//property")} for case in cases]
    assert [it["verbatim_outcome"] for it in told] == ["FAIL", "PASS"]
    assert all(it["verbatim_bundle"] == str(bundle) for it in told)


def test_the_run_is_over_when_pytest_stops_early(pytest_on: OnRig, pytester: pytest.Pytester, daemon: str) -> None:
    done = pytest_on("broken", "-x", "--verbatim-tests=c14-016-*", "--verbatim-artifacts=kept")
    assert done.ret == 1 and done.parseoutcomes()["failed"] == 1
    with Client(daemon) as client:
        assert next(client.runs("rig=broken")).state == "ENDED"
    bundle = next((pytester.path / "kept").iterdir())
    assert json.loads((bundle / "verdicts.json").read_bytes())


def test_the_items_stand_beside_those_of_files_and_markers_choose(pytest_on: OnRig, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    done = pytest_on("sound", "--verbatim-tests=c14-024-node-info")
    done.assert_outcomes(passed=2)
    pytest_on("sound", "--verbatim-tests=c14-024-node-info", "-m", "not verbatim").assert_outcomes(passed=1, deselected=1)
    done = pytest_on("sound", "--verbatim-tests=c14-024-node-info", "--collect-only", "-q")
    done.stdout.fnmatch_lines(["verbatim[[]sound]::c14-024-node-info"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere"], "*no rig 'nowhere'; the daemon has *sound*"),
        (["sound", "--verbatim-tests=zzz"], "*zzz*"),
        ([""], "*--verbatim-rig has no value*"),
        (["sound", "--verbatim-set=x"], "*NAME=NUMBER was expected*"),
        (["sound", "--verbatim-server=unix:/none/s.sock"], "*/none/s.sock*verbatimd serve*"),
        (["sound", "--verbatim-server=lab:1"], "*takes certificates*"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(pytest_on: OnRig, options: list[str], words: str) -> None:
    done = pytest_on(*options)
    assert done.ret == 4, done
    done.stderr.fnmatch_lines([words])


def error_in(pytester: pytest.Pytester) -> str:
    """Returns the error of the item `run` in the JUnit report."""
    error = ElementTree.parse(pytester.path / "report.xml").getroot().find(".//testcase/error")
    assert error is not None
    return error.get("message", "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_junit_of_a_stopped_session_has_an_error(pytest_on: OnRig, pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(f"""
        import os, signal, time
        def test_mine():
            os.kill(os.getpid(), signal.{name})
            time.sleep(60)
    """)
    done = pytest_on("sound", "--verbatim-tests=c14-024-node-info", "--junit-xml=report.xml")
    assert done.ret == 2 and "pytest was stopped" in error_in(pytester)


def test_a_rig_out_of_use_is_told_and_not_waited_for(
    pytest_on: OnRig, pytester: pytest.Pytester, daemon: str
) -> None:
    verbatim = [binary("verbatim"), "--server", daemon, "rigs"]
    subprocess.run([*verbatim, "drain", "held", "--why", "new cable"], check=True, capture_output=True)
    try:
        done = pytest_on("held", "--verbatim-tests=c14-024-node-info", "--junit-xml=report.xml")
        assert done.ret == 4
        done.stderr.fnmatch_lines(["*rig held is DRAINING: *new cable*"])
        assert "new cable" in error_in(pytester)
    finally:
        subprocess.run([*verbatim, "undrain", "held"], check=True, capture_output=True)


def test_help_lists_the_options(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess("-p", "verbatim_client.pytest_plugin", "--help")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["*--verbatim-rig=RIG*"])


def test_without_a_rig_the_plug_in_does_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_subprocess("-p", "verbatim_client.pytest_plugin").assert_outcomes(passed=1)
