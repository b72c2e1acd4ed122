"""The shell parts of docs/ci.md, against a real daemon."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .conftest import ROOT, binary

PAGE = (ROOT / "docs" / "ci.md").read_text()


def shell_parts() -> list[str]:
    """Returns the commands of each job: the value of `run` or `script`, and the argument of `sh`."""
    yaml = re.findall(r"^( *)(?:run:|-) \|\n((?:\1 +.*\n)+)", PAGE, re.MULTILINE)
    return [textwrap.dedent(text) for text in [text for _, text in yaml] + re.findall(r"sh '''\n(.*?)'''", PAGE, re.DOTALL)]


def job(script: str, place: Path, daemon: str, rig: str) -> int:
    path = f"{binary('verbatim').parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "VERBATIM_SERVER": daemon, "RIG": rig}
    return subprocess.run(["bash", "-e", "-c", script], cwd=place, env=environment, timeout=600).returncode


@pytest.mark.parametrize("script", shell_parts(), ids=["gitlab", "github", "jenkins"])
def test_the_job_uploads_junit_and_fails_with_the_device(script: str, tmp_path: Path, daemon: str) -> None:
    assert job(script, tmp_path, daemon, "broken") == 1
    cases = ElementTree.parse(tmp_path / "junit.xml").getroot().findall(".//testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert "c14-016-get-protect-2" in failed and len(failed) < len(cases)
    assert (tmp_path / "report.html").exists()


def test_the_job_ends_and_says_why_although_its_rig_is_not_free(tmp_path: Path, daemon: str) -> None:
    verbatim = [binary("verbatim"), "--server", daemon, "rigs"]
    subprocess.run([*verbatim, "drain", "held", "--why", "new cable"], check=True, capture_output=True)
    try:
        script = shell_parts()[0].replace("10m", "1s")
        assert job(script, tmp_path, daemon, "held") == 3 and not (tmp_path / "bundle").exists()
        errors = ElementTree.parse(tmp_path / "junit.xml").getroot().findall(".//testcase[@name='run']/error")
        assert len(errors) == 1 and "new cable" in errors[0].get("message", "")
    finally:
        subprocess.run([*verbatim, "undrain", "held"], check=True, capture_output=True)
