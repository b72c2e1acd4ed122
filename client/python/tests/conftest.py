"""A real daemon on its own socket, with a sound rig, a broken rig and a rig that is always busy."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
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

# Nothing can be judged of it.
[[rig]]
name = "busy"
kind = "virtual"
busy = 16

# For tests that hold it, so that they are in nobody's way.
[[rig]]
name = "held"
kind = "virtual"
"""


def binary(name: str) -> Path:
    """Returns the path of a program of the product: in VERBATIM_BIN, else in target/debug."""
    directory = Path(os.environ.get("VERBATIM_BIN") or ROOT / "target" / "debug")
    path = directory / name
    if not path.exists():
        pytest.exit(f"{path} is not there: `cargo build -p verbatim -p verbatim-daemon`, or say VERBATIM_BIN=DIR", 3)
    return path


@contextlib.contextmanager
def serving(place: Path, *options: str, rigs: str = RIGS) -> Iterator[str]:
    """Runs a daemon with all its files in `place` until the end of the block; yields the daemon's address."""
    (place / "rigs.toml").write_text(rigs)
    process = subprocess.Popen(
        [
            binary("verbatimd"),
            "serve",
            f"--socket={place}/s.sock",
            f"--state={place}/state",
            f"--rig-file={place}/rigs.toml",
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        # Read the log to its end: the daemon would block on a full pipe.
        assert process.stdout is not None
        with (place / "log").open("a") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                lines.put(line)
        lines.put("")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        while line := lines.get():
            if "serving" in line:
                break
        else:
            pytest.exit(f"verbatimd did not begin to serve: {(place / 'log').read_text()}", 3)
        yield f"unix:{place}/s.sock"
    finally:
        process.terminate()
        try:
            assert process.wait(timeout=60) == 0, (place / "log").read_text()
        finally:
            process.kill()
            reader.join()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of a daemon."""
    with serving(tmp_path_factory.mktemp("d")) as address:
        yield address


@pytest.fixture(autouse=True)
def nobodys_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keeps the developer's environment and configuration out of the tests."""
    for name in ("SERVER", "CA", "CERT", "KEY", "SERVER_NAME", "CLIENT_CONFIG"):
        monkeypatch.delenv(f"VERBATIM_{name}", raising=False)
    # An installed plug-in, or one whose metadata lies in the checkout, must not be loaded beside that of the checkout.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-configuration"))
