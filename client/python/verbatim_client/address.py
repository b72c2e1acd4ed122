"""The address of a daemon, and the options of a channel to it."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import grpc

from .errors import VerbatimError

#: Largest message in bytes: a verdict with all its checks can be long.
_LARGEST = 64 << 20
#: A run may send no event for hours. Only keepalive detects a daemon that stopped, or a connection that broke silently.
_KEEPALIVE: tuple[tuple[str, object], ...] = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)
_KEYS = ("server", "ca", "cert", "key", "server_name")
_HOST_AND_PORT = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5}")

#: The path of a file.
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Address:
    """The address of a daemon: a unix socket, or HOST:PORT with certificates."""

    target: str
    credentials: grpc.ChannelCredentials | None
    options: tuple[tuple[str, object], ...]


def find(
    server: str | None, ca: PathLike | None, cert: PathLike | None, key: PathLike | None, server_name: str | None
) -> Address:
    """Finds the address: from the arguments, else VERBATIM_SERVER etc., else the client's configuration, else the local
    socket.

    Raises VerbatimError INVALID_ARGUMENT for an invalid address, and for missing certificates.
    """
    options: list[tuple[str, object]] = [
        *_KEEPALIVE,
        ("grpc.max_receive_message_length", _LARGEST),
        # gRPC refuses calls between its attempts to connect, so attempts are more frequent than the default (1 s to
        # 120 s).
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1000),
        ("grpc.max_reconnect_backoff_ms", 5000),
    ]
    given = {"server": server, "ca": ca, "cert": cert, "key": key, "server_name": server_name}
    told = {name: str(value) if value else os.environ.get(f"VERBATIM_{name.upper()}") for name, value in given.items()}
    # The configuration fills in missing values, except for a local server.
    if not told["server"] or not _is_local(told["server"]):
        kept = _configuration()
        told = {name: value or kept.get(name) for name, value in told.items()}
    address = told["server"] or _local()
    if _is_local(address):
        # Without this option, gRPC sends the socket's path as :authority, which HTTP/2 does not allow. The current
        # daemon accepts the path; earlier daemons end the call with RST_STREAM.
        options.append(("grpc.default_authority", "localhost"))
        return Address(f"unix:{address.removeprefix('unix:')}", None, tuple(options))
    host = address.removeprefix("https://").rstrip("/")
    if not _HOST_AND_PORT.fullmatch(host):
        raise VerbatimError(
            "INVALID_ARGUMENT",
            f"{address!r} is no address of a daemon: expected unix:/PATH, /PATH, https://HOST:PORT or HOST:PORT",
        )
    credentials = _credentials(address, told)
    if told["server_name"]:
        options.append(("grpc.ssl_target_name_override", told["server_name"]))
    return Address(host, credentials, tuple(options))


def _is_local(address: str) -> bool:
    return address.removeprefix("unix:").startswith("/")


def _credentials(address: str, told: dict[str, str | None]) -> grpc.ChannelCredentials:
    files = {name: told[name] for name in ("ca", "cert", "key")}
    missing = [name for name, path in files.items() if not path]
    if missing:
        raise VerbatimError(
            "INVALID_ARGUMENT",
            f"{address} takes certificates; {', '.join(missing)} not given (`verbatim pki issue DIR NAME` makes them)",
        )
    pems = {}
    for name, path in files.items():
        try:
            pems[name] = Path(str(path)).read_bytes()
        except OSError as error:
            raise VerbatimError("INVALID_ARGUMENT", f"{name} for {address}: {path}: {error.strerror}") from error
    return grpc.ssl_channel_credentials(pems["ca"], private_key=pems["key"], certificate_chain=pems["cert"])


def _configuration() -> dict[str, str]:
    """Reads the client's configuration, as `verbatim` does. Paths in the file are relative to the file's directory."""
    named = os.environ.get("VERBATIM_CLIENT_CONFIG")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(named) if named else Path(base, "verbatim", "client.toml")
    try:
        read = tomllib.loads(path.read_text())
    except FileNotFoundError:
        if not named:
            return {}
        raise VerbatimError("INVALID_ARGUMENT", f"the client's configuration {path} is not there") from None
    except (OSError, ValueError) as error:
        raise VerbatimError("INVALID_ARGUMENT", f"the client's configuration {path}: {error}") from error
    for name, value in read.items():
        if name not in _KEYS or not isinstance(value, str):
            raise VerbatimError(
                "INVALID_ARGUMENT", f"{path}: {name} = {value!r}: expected some of {', '.join(_KEYS)}, each a string"
            )
    return {name: str(path.parent / value) if name in ("ca", "cert", "key") else value for name, value in read.items()}


def _local() -> str:
    directory = os.environ.get("RUNTIME_DIRECTORY")
    if directory and Path(directory, "verbatim.sock").exists():
        return f"{directory}/verbatim.sock"
    return "/run/verbatim/verbatim.sock"
