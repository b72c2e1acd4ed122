"""The plug-in in a pytest of its own, against a real daemon."""

from __future__ import annotations

import pytest

from .conftest import ROOT


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "client" / "python"))


@pytest.fixture
def pytest_on(pytester: pytest.Pytester, daemon: str):
    def run(*options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            "-p", "verbatim_client.pytest_plugin", f"--verbatim-server={daemon}", "-rA", *options
        )

    return run


def test_each_conformance_test_is_an_item_with_its_verdict(pytest_on) -> None:
    done = pytest_on(
        "--verbatim-rig=broken", "--verbatim-tests=c14-024-node-info", "--verbatim-tests=c14-016-get-protect-2"
    )
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*FAIL c14-016-get-protect-2, cause DUT", "*expected  no answer", "*evidence  *SubnGet*"])
    assert done.ret == 1


def test_what_does_not_apply_is_skipped_with_its_reason(pytest_on) -> None:
    done = pytest_on("--verbatim-rig=sound", "--verbatim-tests=c16-*", "--verbatim-tests=c14-024-node-info")
    outcomes = done.parseoutcomes()
    assert outcomes.get("failed", 0) == 0 and outcomes["passed"] >= 1


def test_k_chooses_and_the_bundle_is_downloaded(pytest_on, pytester: pytest.Pytester) -> None:
    done = pytest_on("--verbatim-rig=sound", "-k", "lease-zero", "--verbatim-artifacts=kept")
    done.assert_outcomes(passed=1)
    bundles = list((pytester.path / "kept").iterdir())
    assert len(bundles) == 1 and (bundles[0] / "manifest.json").exists()


def test_wrong_options_are_told_before_anything_runs(pytest_on) -> None:
    for options, words in [
        (["--verbatim-rig=nowhere"], "*no rig 'nowhere'; the daemon has *"),
        (["--verbatim-rig=sound", "--verbatim-tests=zzz"], "*zzz*"),
        (["--verbatim-rig=sound", "--verbatim-set=x"], "*NAME=NUMBER was expected*"),
    ]:
        done = pytest_on(*options)
        assert done.ret == 4, done
        done.stderr.fnmatch_lines([words])


def test_without_a_rig_the_plug_in_does_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_subprocess("-p", "verbatim_client.pytest_plugin").assert_outcomes(passed=1)
