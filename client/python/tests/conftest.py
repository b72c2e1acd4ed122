"""A real daemon on a socket of its own, with a sound rig and one that is broken."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]

RIGS = """config_version = 1

[[rig]]
name = "sound"
kind = "virtual"

[[rig]]
name = "broken"
kind = "virtual"
defects = ["m-key-ignored-on-get"]
"""


def binary(name: str) -> Path:
    """A program of the product: in VERBATIM_BIN, else in target/debug."""
    directory = Path(os.environ.get("VERBATIM_BIN") or ROOT / "target" / "debug")
    path = directory / name
    if not path.exists():
        pytest.exit(f"{path} is not there: `cargo build -p verbatim -p verbatim-daemon`, or say VERBATIM_BIN=DIR", 3)
    return path


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a daemon."""
    place = tmp_path_factory.mktemp("d")
    (place / "rigs.toml").write_text(RIGS)
    log = (place / "log").open("w+")
    process = subprocess.Popen(
        [
            binary("verbatimd"),
            "serve",
            "--socket",
            place / "s.sock",
            "--state",
            place / "state",
            "--rig-file",
            place / "rigs.toml",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        log.write(line)
        if "serving" in line:
            break
    else:
        log.seek(0)
        pytest.exit(f"verbatimd did not begin to serve: {log.read()}", 3)
    try:
        yield f"unix:{place}/s.sock"
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0
        log.close()
