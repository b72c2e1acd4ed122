"""Errors of calls to the daemon, and the waiting times of retries."""

from __future__ import annotations

import random
import time

import grpc


class VerbatimError(Exception):
    """A call that the daemon refused, or that did not reach the daemon.

    `code` is the name of gRPC's status code, such as "NOT_FOUND" or "UNAVAILABLE"; the text is the daemon's message.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.code})"


#: Codes of errors that may be temporary. After such an error, the client resumes watches, and repeats calls where that
#: is safe.
PASSING = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED")


def of(error: grpc.RpcError, target: str) -> VerbatimError:
    """Converts gRPC's error to a VerbatimError."""
    code = error.code().name if hasattr(error, "code") and error.code() is not None else "UNKNOWN"
    text = (error.details() if hasattr(error, "details") else None) or str(error)
    if code == "UNAVAILABLE" and not _is_of_the_daemon(error):
        text = f"{target}: {text}; is a daemon there (`verbatimd serve`), and may this user connect?"
    return VerbatimError(code, text)


def _is_of_the_daemon(error: grpc.RpcError) -> bool:
    """Returns whether the daemon sent the error: only the daemon adds status details."""
    metadata = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    return any(key == "grpc-status-details-bin" for key, _ in metadata or ())


class Backoff:
    """The waiting times between retries, and the time limit of all retries."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.reset()

    def reset(self) -> None:
        """Resets the waiting time and the time limit after a success."""
        self._until: float | None = None
        self._wait_s = 0.1

    def after(self, error: VerbatimError) -> float:
        """Returns the seconds to wait. Raises the error when it is not temporary, or when the time limit has passed."""
        # The wait is random, so that the watchers of a daemon do not all reconnect at the same instant.
        wait_s = self._wait_s * random.uniform(0.5, 1.0)
        if self._until is None:  # Count from the first failure: a watch may wait for hours before its next event.
            self._until = time.monotonic() + self._patience_s
        if error.code not in PASSING or time.monotonic() + wait_s > self._until:
            raise error
        self._wait_s = min(self._wait_s * 2, 5.0)
        return wait_s
