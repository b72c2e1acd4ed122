"""TLS with certificates from files, and a list of revoked certificates. Changed files are read again."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Optional

import grpc

#: Seconds for which the result of a successful check of a certificate is cached.
STANDS = 30.0


class ListenError(Exception):
    """The agent cannot listen at the address. The text tells the user what to do."""


@dataclass(frozen=True)
class Tls:
    """PEM files: the agent's certificate and key, the CA of the testers' certificates, and that CA's revocation list.
    ``verbatim pki init`` makes the files; ``verbatim pki revoke`` adds a certificate to the list. Changed files are
    read again; if a changed file is invalid, the previous files stay in use. The list needs the program ``openssl``."""

    cert: str
    key: str
    client_ca: str
    crl: Optional[str] = None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ListenError(f"{path} cannot be read ({error.strerror}); name a PEM file that this user may read") from None


def _check(tls: Tls) -> None:
    """Checks that the files are valid and belong together. Raises ListenError otherwise."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for path in (tls.cert, tls.key, tls.client_ca):
        _read(path)
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except (ssl.SSLError, OSError) as error:
        raise ListenError(f"{tls.cert} and {tls.key} are no certificate with its key, in PEM: {error}") from None
    try:
        context.load_verify_locations(tls.client_ca)
    except (ssl.SSLError, OSError) as error:
        raise ListenError(f"{tls.client_ca} is no certificate of a CA, in PEM: {error}") from None
    if tls.crl is None:
        return
    _read(tls.crl)
    try:
        read = subprocess.run(
            ["openssl", "crl", "-in", tls.crl, "-CAfile", tls.client_ca, "-noout"], capture_output=True, timeout=30
        )
    except OSError as error:
        raise ListenError(f"a list of revoked certificates needs the program openssl ({error}); install openssl") from None
    if read.returncode != 0 or b"verify failure" in read.stderr:
        raise ListenError(f"{tls.crl} is no list of revoked certificates of {tls.client_ca}, in PEM; `verbatim pki` makes one")


class Files:
    """The files of a server, as of the last successful check."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        _check(tls)
        self._seen = self._marks()
        self._take()

    def _marks(self) -> tuple[Optional[tuple[int, int, int]], ...]:
        """Returns marks that change when a file changes."""

        def mark(path: str) -> Optional[tuple[int, int, int]]:
            try:
                of = os.stat(path)
            except OSError:
                return None
            return of.st_mtime_ns, of.st_size, of.st_ino

        tls = self._tls
        return tuple(mark(path) for path in (tls.cert, tls.key, tls.client_ca, tls.crl) if path is not None)

    def _take(self) -> None:
        tls = self._tls
        self._key, self._cert, self._ca = _read(tls.key), _read(tls.cert), _read(tls.client_ca)
        self._crl = None if tls.crl is None else _read(tls.crl)
        #: Certificates that passed the check. The value is the time until which the result is valid, in seconds of the
        #: monotonic clock.
        self._good: dict[bytes, float] = {}

    def _look(self) -> bool:
        """Reads the files again if one has changed; returns whether new files are in use."""
        marks = self._marks()
        if marks == self._seen:
            return False
        self._seen = marks
        try:
            _check(self._tls)
            self._take()
        except ListenError as error:
            print(f"agent: the certificates stay as they were: {error}", file=sys.stderr, flush=True)
            return False
        print("agent: the certificates were read again", file=sys.stderr, flush=True)
        return True

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(self._key, self._cert)], root_certificates=self._ca)

    def credentials(self) -> grpc.ServerCredentials:
        """Returns credentials; gRPC requests the current files for each connection."""

        def fetch() -> Optional[grpc.ServerCertificateConfiguration]:
            with self._lock:
                return self._configuration() if self._look() or self._is_new() else None

        self._given = self._key, self._cert, self._ca
        return grpc.dynamic_ssl_server_credentials(self._configuration(), fetch, require_client_authentication=True)

    def _is_new(self) -> bool:
        """Returns whether gRPC lacks the current files: :meth:`refusal` may have read changed files first."""
        now = self._key, self._cert, self._ca
        before, self._given = self._given, now
        return before != now

    def refusal(self, certificate: Optional[bytes]) -> Optional[str]:
        """Returns why a tester with this certificate (PEM) is refused, or None when it is accepted."""
        with self._lock:
            self._look()
            if certificate is None:
                return "the tester showed no certificate"
            if self._good.get(certificate, 0.0) > time.monotonic():
                return None
            why = self._refusal(certificate)
            if why is None:
                self._good[certificate] = time.monotonic() + STANDS
            return why

    def _refusal(self, certificate: bytes) -> Optional[str]:
        if self._crl is None:
            return None  # The handshake has checked everything else.
        # Check against the contents that were read, because the files may have changed since.
        pipes: list[int] = []
        try:
            names = []
            for content in (self._ca, self._crl):
                pipe = os.memfd_create("verbatim")
                pipes.append(pipe)
                os.write(pipe, content)
                names.append(f"/proc/self/fd/{pipe}")
            checked = subprocess.run(
                ["openssl", "verify", "-crl_check", "-CAfile", names[0], "-CRLfile", names[1]],
                input=certificate,
                capture_output=True,
                pass_fds=pipes,
                timeout=30,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"the list of revoked certificates cannot be asked: {error}"
        finally:
            for pipe in pipes:
                os.close(pipe)
        if checked.returncode == 0:
            return None
        said = [line for line in checked.stderr.decode(errors="replace").splitlines() if line.startswith("error ")]
        return f"its certificate is refused: {said[0].partition(': ')[2] if said else 'it cannot be verified'}"
