"""What goes wrong between client and daemon."""

from __future__ import annotations

import random
import time

import grpc


class VerbatimError(Exception):
    """A call that the daemon refused or that did not reach it.

    `code` is gRPC's word for it, such as "NOT_FOUND" or "UNAVAILABLE"; the text is the daemon's own sentence.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.code})"


#: What a moment may mend: a call that may be repeated is made again after these, and a watch is taken up again.
PASSING = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED")


def of(error: grpc.RpcError, target: str) -> VerbatimError:
    """gRPC's error as ours."""
    code = error.code().name if hasattr(error, "code") and error.code() is not None else "UNKNOWN"
    text = (error.details() if hasattr(error, "details") else None) or str(error)
    if code == "UNAVAILABLE" and not _is_of_the_daemon(error):
        text = f"{target}: {text}; is a daemon there (`verbatimd serve`), and may this user connect?"
    return VerbatimError(code, text)


def _is_of_the_daemon(error: grpc.RpcError) -> bool:
    """Whether the daemon itself said so: it adds details for programs, which gRPC does not when it reaches nobody."""
    metadata = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    return any(key == "grpc-status-details-bin" for key, _ in metadata or ())


class Backoff:
    """How long to wait before what failed is tried again, and when to give up."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.reset()

    def reset(self) -> None:
        """It went well: the next failure is the first again."""
        self._until: float | None = None
        self._wait_s = 0.1

    def after(self, error: VerbatimError) -> float:
        """Seconds to wait. Raises the error where no wait mends it, or where that took too long already."""
        # By chance, so that the watchers of one daemon do not all come back at the same instant.
        wait_s = self._wait_s * random.uniform(0.5, 1.0)
        if self._until is None:  # From the first failure on: a run may have been silent for hours before.
            self._until = time.monotonic() + self._patience_s
        if error.code not in PASSING or time.monotonic() + wait_s > self._until:
            raise error
        self._wait_s = min(self._wait_s * 2, 5.0)
        return wait_s
