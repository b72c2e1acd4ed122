"""The asyncio client against a real daemon."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import verbatim_client
from verbatim_client import Outcome, VerbatimError, aio
from verbatim_client.aio import Client

from .conftest import binary


def on(daemon: str, main: Callable[[Client], Awaitable[None]]) -> None:
    async def within() -> None:
        async with Client(daemon) as client:
            await main(client)

    asyncio.run(within())


@pytest.mark.parametrize("name", ["Client", "Run", "Lease"])
def test_both_clients_have_the_same_methods_with_the_same_parameters(name: str) -> None:
    def of(kind: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(kind, inspect.isfunction)
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in methods
            if not name.startswith("_") or name == "__init__"
        }

    assert of(getattr(aio, name)) == of(getattr(verbatim_client, name))


def test_what_there_is_is_listed(daemon: str) -> None:
    async def main(client: Client) -> None:
        assert {rig.name for rig in await client.rigs()} >= {"sound", "broken"}
        assert [test.id for test in await client.tests("c14-024-node-info")] == ["c14-024-node-info"]
        assert any(statement.id == "C14-16" for statement in await client.statements())

    on(daemon, main)


def test_a_run_is_followed_and_waited_for(daemon: str, tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        async with await client.run("sound", ["c14-024-node-info"]) as run:
            ends = [event.test_ended.verdict.test async for event in run.events() if event.HasField("test_ended")]
            assert ends == ["c14-024-node-info"]
            assert (await run.wait()).outcome is run.outcome is Outcome.PASS
        assert (await run.read("verdicts.json")).startswith(b"[")
        assert (await run.record("c14-024-node-info")).exchanges()
        bundle = await run.download(tmp_path / "bundle")
        assert subprocess.run([binary("verbatim"), "verify", bundle], capture_output=True).returncode == 0
        assert (await (await client.get_run(run.name)).wait()).outcome is Outcome.PASS
        assert run.name in [kept.name async for kept in client.runs("rig=sound", page_size=1)]

    on(daemon, main)


def test_two_runs_go_on_at_once(daemon: str) -> None:
    async def main(client: Client) -> None:
        runs = [await client.run(rig, "c14-016-get-protect-2") for rig in ("sound", "broken")]
        ended = await asyncio.gather(*(run.wait() for run in runs))
        assert [end.outcome for end in ended] == [Outcome.PASS, Outcome.FAIL]
        with pytest.raises(VerbatimError, match="zzz"):
            await client.tests(["zzz"])

    on(daemon, main)


def test_leases_are_waited_for_and_given_back(daemon: str) -> None:
    async def main(client: Client) -> None:
        async with await client.reserve("held", lasts_s=60) as lease:
            assert lease.state == "ACTIVE" and (await lease.renew(90)).rig == "held"
            run = await client.run(tests="c14-024-node-info", lease=lease)
            assert (await run.wait()).outcome is Outcome.PASS
            second = await client.reserve("held")
            assert second.state == "PENDING"
            with pytest.raises(TimeoutError):
                await second.wait(timeout_s=0.2)
            await second.end()
            async with await client.run("held", "c14-024-node-info", own_lease=True) as queued:
                with pytest.raises(TimeoutError):
                    await queued.wait(timeout_s=0.2)
            assert (await queued.wait()).cause.name == "OPERATOR"
        assert lease.name not in [it.name for it in await client.leases()]

    on(daemon, main)


def test_a_task_that_is_cancelled_leaves_the_run_to_go_on(daemon: str) -> None:
    async def main(client: Client) -> None:
        async with await client.reserve("held"):
            run = await client.run("held", "c14-024-node-info", own_lease=True)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await run.wait()
        assert (await run.wait()).outcome is Outcome.PASS

    on(daemon, main)


def test_what_is_not_reached_is_told_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with Client(f"unix:{tmp_path}/none.sock") as client:
            with pytest.raises(VerbatimError, match="verbatimd serve") as caught:
                await client.run("sound")
            assert caught.value.code == "UNAVAILABLE"

    asyncio.run(main())
