"""What goes wrong between client and daemon."""

from __future__ import annotations

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


#: What a moment may mend: a watch is taken up again after these.
PASSING = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED")


def of(error: grpc.RpcError, target: str) -> VerbatimError:
    """gRPC's error as ours."""
    code = error.code().name if hasattr(error, "code") and error.code() is not None else "UNKNOWN"
    text = (error.details() if hasattr(error, "details") else None) or str(error)
    if code == "UNAVAILABLE":
        text = f"{target}: {text}; is a daemon there (`verbatimd serve`), and may this user connect?"
    return VerbatimError(code, text)
