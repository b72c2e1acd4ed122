"""A lease of a rig, for the blocking client."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

import grpc

from . import errors
from ._proto.verbatim.v1 import lease_pb2
from .errors import VerbatimError

if TYPE_CHECKING:
    from .client import Client


class LeaseFacts:
    """The state of a lease, as last received from the daemon."""

    def __init__(self, message: lease_pb2.Lease) -> None:
        #: The last message from the daemon.
        self.message = message

    def __repr__(self) -> str:
        return f"<{self.name} {self.state} {self.rig or ', '.join(self.message.candidates)}>"

    @property
    def name(self) -> str:
        """The resource name, `leases/ID`."""
        return self.message.name

    @property
    def state(self) -> str:
        """The state: PENDING, ACTIVE or ENDED."""
        return lease_pb2.LeaseState.Name(self.message.state).removeprefix("LEASE_STATE_")

    @property
    def rig(self) -> str:
        """The rig of the lease; empty while the lease is pending."""
        return self.message.rig

    @property
    def owner(self) -> str:
        """The owner of the lease."""
        return self.message.owner

    @property
    def lasts_s(self) -> int:
        """The duration of the lease in seconds, from its grant."""
        return self.message.lasts_s

    @property
    def reason(self) -> str:
        """The reason why the lease ended or waits."""
        return self.message.reason or "; ".join(self.message.waiting.because)

    def _begun(self) -> bool:
        """Returns whether the lease is active. Raises VerbatimError FAILED_PRECONDITION when it has ended."""
        if self.message.state == lease_pb2.LEASE_STATE_ENDED:
            raise VerbatimError("FAILED_PRECONDITION", f"{self.name} ended: {self.reason}")
        return self.message.state == lease_pb2.LEASE_STATE_ACTIVE

    def _late(self) -> TimeoutError:
        return TimeoutError(f"{self.name} does not hold a rig yet: {self.reason}")

    def _broke(self, target: str) -> VerbatimError:
        return VerbatimError("UNAVAILABLE", f"{target}: the stream of {self.name} ended while it waits")


class Lease(LeaseFacts):
    """A lease. `with client.reserve(RIG) as lease:` waits for the rig, and ends the lease with the block."""

    def __init__(self, client: Client, message: lease_pb2.Lease) -> None:
        super().__init__(message)
        self._client = client

    def __enter__(self) -> Lease:
        try:
            return self.wait()
        except BaseException:
            self.end()  # The block is not entered, so __exit__ will not run.
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def wait(self, timeout_s: float | None = None) -> Lease:
        """Waits until the lease is active.

        Raises TimeoutError after `timeout_s` seconds, and VerbatimError FAILED_PRECONDITION when the lease has ended.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        backoff = errors.Backoff(self._client.patience_s)
        while not self._begun():
            left_s = None if until is None else max(0.0, until - time.monotonic())
            call = self._client._leases.WatchLease(lease_pb2.WatchLeaseRequest(name=self.name), timeout=left_s)
            try:
                for answer in call:
                    self.message = answer.lease
                    backoff.reset()
                    if self._begun():
                        return self
                wait_s = backoff.after(self._broke(self._client.target))
            except grpc.RpcError as error:
                if until is not None and time.monotonic() >= until:
                    raise self._late() from error
                wait_s = backoff.after(errors.of(error, self._client.target))
            finally:
                call.cancel()
            time.sleep(wait_s)
        return self

    def renew(self, lasts_s: int) -> Lease:
        """Renews the lease: the lease lasts `lasts_s` seconds from now."""
        self.message = self._client.renew(self, lasts_s).message
        return self

    def end(self) -> Lease:
        """Ends the lease. A current run under the lease stops at its next safe point."""
        self.message = self._client.end(self).message
        return self
