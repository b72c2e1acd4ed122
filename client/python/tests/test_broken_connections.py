"""A broken watch continues where it broke: no event is lost or repeated."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from verbatim_client import Client, Outcome, VerbatimError, address, aio
from verbatim_client._pytest_session import Session

from .breakable import Breakable
from .conftest import serving

TEST = "c14-024-node-info"


def test_a_cut_connection_is_taken_up_at_the_cursor(daemon: str, tmp_path: Path) -> None:
    with Breakable(tmp_path / "p.sock", daemon) as way, Client(daemon) as direct, Client(way.address) as client:
        with direct.reserve("held"):
            run = client.run("held", TEST, own_lease=True)
            events = run.events()
            cursors = [next(events).cursor]
            for _ in range(2):
                before = way.connections
                way.cut()
                # The next call makes the client reconnect; the watch reconnects by itself.
                run.refresh()
                assert way.connections > before
        cursors += [event.cursor for event in events]
        assert cursors == list(range(1, len(cursors) + 1))
        assert cursors == [event.cursor for event in direct.get_run(run.name).events()]
        assert run.outcome is Outcome.PASS


def test_the_same_for_asyncio(daemon: str, tmp_path: Path) -> None:
    async def main() -> None:
        with Breakable(tmp_path / "p.sock", daemon) as way:
            async with aio.Client(daemon) as direct, aio.Client(way.address) as client:
                async with await direct.reserve("held"):
                    run = await client.run("held", TEST, own_lease=True)
                    events = run.events()
                    cursors = [(await anext(events)).cursor]
                    way.cut()
                cursors += [event.cursor async for event in events]
                assert cursors == list(range(1, len(cursors) + 1)) and way.connections >= 2
                assert run.outcome is Outcome.PASS

    asyncio.run(main())


def test_patience_ends(daemon: str, tmp_path: Path) -> None:
    with Breakable(tmp_path / "p.sock", daemon) as way, Client(daemon) as direct:
        with direct.reserve("held"), Client(way.address, patience_s=0.5) as client:
            run = client.run("held", TEST, own_lease=True)
            events = run.events()
            next(events)
            way.close()
            with pytest.raises(VerbatimError) as caught:
                list(events)
            assert caught.value.code == "UNAVAILABLE"
            direct.get_run(run.name).cancel()


def test_a_frozen_daemon_ends_the_watch_and_ctrl_c_is_quick(
    daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = (("grpc.keepalive_time_ms", 500), ("grpc.keepalive_timeout_ms", 500))
    monkeypatch.setattr(address, "_KEEPALIVE", (*soon, *address._KEEPALIVE[2:]))
    with Breakable(tmp_path / "p.sock", daemon) as way, Client(daemon) as direct, direct.reserve("held"):
        session = Session("held", way.address, [TEST], 0, {}, None, None)
        session.client.patience_s = 0.5
        session.look()
        session.run = session.client.run("held", TEST, own_lease=True)
        events = session.run.events()
        next(events)
        way.freeze()
        with pytest.raises(VerbatimError) as caught:
            list(events)
        assert caught.value.code == "UNAVAILABLE"
        session.client.patience_s, before = 60.0, time.monotonic()
        session.finish(stopped=True)
        assert session.trouble and time.monotonic() - before < 20
        session.client.close()
        direct.get_run(session.run.name).cancel()


def test_a_daemon_that_is_started_anew_is_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        client = Client(address)
        lease = client.reserve("held").wait()
        run = client.run("held", TEST, own_lease=True)
        events = run.events()
        cursors = [next(events).cursor]
    with client, serving(tmp_path):
        lease.end()
        cursors += [event.cursor for event in events]
        assert cursors == sorted(set(cursors)) and run.wait().outcome is Outcome.PASS
