"""A lease for asyncio: the same as `verbatim_client.lease`, with awaitable calls."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING

import grpc

from .. import errors
from .._proto.verbatim.v1 import lease_pb2
from ..lease import LeaseFacts

if TYPE_CHECKING:
    from .client import Client


class Lease(LeaseFacts):
    """A lease. `async with await client.reserve(RIG) as lease:` waits for the rig, and ends the lease with the
    block."""

    def __init__(self, client: Client, message: lease_pb2.Lease) -> None:
        super().__init__(message)
        self._client = client

    async def __aenter__(self) -> Lease:
        try:
            return await self.wait()
        except BaseException:
            await self.end()  # The block is not entered, so __aexit__ will not run.
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    async def wait(self, timeout_s: float | None = None) -> Lease:
        """Waits until the lease is active.

        Raises TimeoutError after `timeout_s` seconds, and VerbatimError FAILED_PRECONDITION when the lease has ended.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        backoff = errors.Backoff(self._client.patience_s)
        while not self._begun():
            left_s = None if until is None else max(0.0, until - time.monotonic())
            call = self._client._leases.WatchLease(lease_pb2.WatchLeaseRequest(name=self.name), timeout=left_s)
            try:
                async for answer in call:
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
            await asyncio.sleep(wait_s)
        return self

    async def renew(self, lasts_s: int) -> Lease:
        """Renews the lease: the lease lasts `lasts_s` seconds from now."""
        self.message = (await self._client.renew(self, lasts_s)).message
        return self

    async def end(self) -> Lease:
        """Ends the lease. A current run under the lease stops at its next safe point."""
        self.message = (await self._client.end(self)).message
        return self
