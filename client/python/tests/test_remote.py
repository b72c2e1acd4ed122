"""A daemon over TLS, and the sources of the client's address."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from verbatim_client import Client, Outcome, VerbatimError

from .conftest import binary, serving

CONFIG = """config_version = 1

[listen]
address = "127.0.0.1:0"
cert = "pki/server.pem"
key = "pki/server-key.pem"
client_ca = "pki/ca.pem"

[[role]]
role = "operator"
who = ["cert:alice"]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with certificates for alice, and for eve, who has no role."""
    place = tmp_path_factory.mktemp("r")
    for command in (["init", "pki", "--server-host", "127.0.0.1"], ["issue", "pki", "alice"], ["issue", "pki", "eve"]):
        subprocess.run([binary("verbatim"), "pki", *command], cwd=place, check=True, capture_output=True)
    (place / "verbatimd.toml").write_text(CONFIG)
    return place


@pytest.fixture(scope="module")
def port(place: Path) -> Iterator[str]:
    with serving(place, f"--config={place}/verbatimd.toml"):
        yield re.search(r"127\.0\.0\.1:([1-9]\d*)", (place / "log").read_text())[1]


def files(place: Path, name: str) -> dict[str, Path]:
    pki = place / "pki"
    return {"ca": pki / "ca.pem", "cert": pki / f"{name}.pem", "key": pki / f"{name}-key.pem"}


@pytest.mark.parametrize("form", ["https://127.0.0.1:{}", "127.0.0.1:{}", "https://127.0.0.1:{}/"])
def test_a_run_over_tls(place: Path, port: str, form: str) -> None:
    with Client(form.format(port), **files(place, "alice")) as client:
        ended = client.run("sound", "c14-024-node-info").wait()
        assert (ended.outcome, ended.message.owner) == (Outcome.PASS, "cert:alice")


def test_who_has_no_role_hears_the_daemons_sentence(place: Path, port: str) -> None:
    with Client(f"127.0.0.1:{port}", **files(place, "eve")) as client, pytest.raises(VerbatimError) as caught:
        client.rigs()
    assert "cert:eve has no role at this daemon" in str(caught.value), caught.value


def test_the_environment_and_the_configuration_stand_for_what_is_not_given(place: Path, port: str, monkeypatch) -> None:
    monkeypatch.setenv("VERBATIM_SERVER", f"https://127.0.0.1:{port}")
    for name, path in files(place, "alice").items():
        monkeypatch.setenv(f"VERBATIM_{name.upper()}", str(path))
    with Client() as client:
        assert client.rigs()
    for name in ("SERVER", "CA", "CERT", "KEY"):
        monkeypatch.delenv(f"VERBATIM_{name}")
    kept = place / "client.toml"
    monkeypatch.setenv("VERBATIM_CLIENT_CONFIG", str(kept))
    kept.write_text(
        f'server = "https://127.0.0.1:{port}"\nca = "pki/ca.pem"\ncert = "pki/alice.pem"\nkey = "pki/alice-key.pem"\n'
    )
    with Client() as client:
        assert client.rigs()
    for text, words in [("colour = 1", "colour = 1: expected some of server"), ("server = ", "client.toml")]:
        kept.write_text(text)
        with pytest.raises(VerbatimError, match=words):
            Client()
    kept.unlink()
    with pytest.raises(VerbatimError, match="is not there"):
        Client()


def test_without_a_word_it_is_the_local_socket(daemon: str, monkeypatch, tmp_path: Path) -> None:
    assert Client().target == "unix:/run/verbatim/verbatim.sock"
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    (tmp_path / "verbatim.sock").touch()
    assert Client().target == f"unix:{tmp_path}/verbatim.sock"
    monkeypatch.setenv("VERBATIM_SERVER", daemon)
    assert Client().target == daemon
