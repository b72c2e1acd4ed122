"""The asyncio client against a real daemon."""

from __future__ import annotations

import asyncio

import pytest

from verbatim_client import Outcome, VerbatimError
from verbatim_client.aio import Client


def test_a_run_is_followed_and_waited_for(daemon: str) -> None:
    async def main() -> None:
        async with Client(daemon) as client:
            run = await client.run("sound", ["c14-024-node-info"])
            ends = [event.test_ended.verdict.test async for event in run.events() if event.HasField("test_ended")]
            assert ends == ["c14-024-node-info"]
            assert (await run.wait()).outcome is Outcome.PASS
            assert (await run.read("verdicts.json")).startswith(b"[")
            assert (await (await client.get_run(run.name)).wait()).outcome is Outcome.PASS

    asyncio.run(main())


def test_two_runs_go_on_at_once(daemon: str) -> None:
    async def main() -> None:
        async with Client(daemon) as client:
            runs = [await client.run(rig, ["c14-016-get-protect-2"]) for rig in ("sound", "broken")]
            ended = await asyncio.gather(*(run.wait() for run in runs))
            assert [end.outcome for end in ended] == [Outcome.PASS, Outcome.FAIL]
            with pytest.raises(VerbatimError, match="zzz"):
                await client.tests(["zzz"])

    asyncio.run(main())
