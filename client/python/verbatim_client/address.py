"""Where a daemon is, and what a channel to it needs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import grpc

from .errors import VerbatimError

#: A verdict with all its checks can be long.
_LARGEST = 64 << 20


@dataclass(frozen=True)
class Address:
    """A unix socket, or HOST:PORT with certificates."""

    target: str
    credentials: grpc.ChannelCredentials | None
    options: tuple[tuple[str, object], ...]


def find(
    server: str | None,
    ca: str | os.PathLike[str] | None,
    cert: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
    server_name: str | None,
) -> Address:
    """What is given, else VERBATIM_SERVER, VERBATIM_CA, VERBATIM_CERT, VERBATIM_KEY, else the local socket.

    Raises VerbatimError INVALID_ARGUMENT for an address that is none, and for missing certificates.
    """
    server = server or os.environ.get("VERBATIM_SERVER") or _local()
    options: list[tuple[str, object]] = [("grpc.max_receive_message_length", _LARGEST)]
    if server.startswith("https://"):
        files = [
            (what, given or os.environ.get(variable))
            for what, given, variable in (
                ("ca", ca, "VERBATIM_CA"),
                ("cert", cert, "VERBATIM_CERT"),
                ("key", key, "VERBATIM_KEY"),
            )
        ]
        missing = [what for what, path in files if not path]
        if missing:
            raise VerbatimError("INVALID_ARGUMENT", f"{server} takes certificates; {', '.join(missing)} not given")
        try:
            pems = [Path(str(path)).read_bytes() for _, path in files]
        except OSError as error:
            raise VerbatimError("INVALID_ARGUMENT", f"certificates for {server}: {error}") from error
        server_name = server_name or os.environ.get("VERBATIM_SERVER_NAME")
        if server_name:
            options.append(("grpc.ssl_target_name_override", server_name))
        credentials = grpc.ssl_channel_credentials(pems[0], private_key=pems[2], certificate_chain=pems[1])
        return Address(server.removeprefix("https://").rstrip("/"), credentials, tuple(options))
    path = server.removeprefix("unix:")
    if not path.startswith("/"):
        raise VerbatimError(
            "INVALID_ARGUMENT", f"{server!r}: expected unix:/PATH, /PATH or https://HOST:PORT"
        )
    # gRPC would name the socket's path as authority, which is no host.
    options.append(("grpc.default_authority", "localhost"))
    return Address(f"unix:{path}", None, tuple(options))


def _local() -> str:
    directory = os.environ.get("RUNTIME_DIRECTORY")
    if directory and Path(directory, "verbatim.sock").exists():
        return f"{directory}/verbatim.sock"
    return "/run/verbatim/verbatim.sock"
