"""The client against a real daemon."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import grpc
import pytest

from verbatim_client import Client, Outcome, VerbatimError
from verbatim_client._proto.verbatim.v1 import rig_pb2, rig_pb2_grpc
from verbatim_client.record import Record

from .conftest import binary


@pytest.fixture
def client(daemon: str):
    with Client(daemon) as client:
        yield client


def test_rigs_tests_and_statements_are_listed(client: Client) -> None:
    assert {rig.name for rig in client.rigs()} >= {"sound", "broken"}
    assert [test.id for test in client.tests(["c14-024-node-info"])] == ["c14-024-node-info"]
    assert any(statement.id == "C14-16" for statement in client.statements())


def test_plain_grpcio_on_the_unix_socket_needs_no_option(daemon: str) -> None:
    with grpc.insecure_channel(daemon) as channel:
        listed = rig_pb2_grpc.RigServiceStub(channel).ListRigs(rig_pb2.ListRigsRequest(), timeout=60)
    assert "rigs/sound" in [rig.name for rig in listed.rigs]


def test_a_run_on_a_sound_device_passes_and_is_found_again(client: Client) -> None:
    run = client.run("sound", ["C14-21"])
    ended = run.wait()
    assert (ended.outcome, ended.name) == (Outcome.PASS, run.name)
    assert ended.verdict("c14-017-lease-zero").outcome is Outcome.PASS
    assert client.get_run(run.name).state == "ENDED"
    assert run.name in [kept.name for kept in client.runs("rig=sound", page_size=1)]
    with pytest.raises(KeyError, match="no verdict of 'x'"):
        ended.verdict("x")


def test_a_finding_has_its_statement_bound_value_and_packets(client: Client) -> None:
    ended = client.run("broken", ["c14-016-get-protect-2"]).wait()
    verdict = ended.verdicts[0]
    assert (ended.outcome, verdict.outcome, verdict.cause.name) == (Outcome.FAIL, Outcome.FAIL, "DUT")
    finding = verdict.findings[0]
    assert (finding.statement, finding.expected) == ("C14-16", "no answer")
    assert "SubnGet" in finding.evidence[0]


def test_events_come_in_order_and_from_a_cursor_on(client: Client) -> None:
    run = client.run("sound", ["c14-024-node-info"])
    events = list(run.events())
    cursors = [event.cursor for event in events]
    assert cursors == sorted(cursors) and events[-1].HasField("state_changed")
    assert [event.cursor for event in run.events(cursors[1])] == cursors[2:]


def test_a_bundle_that_is_downloaded_is_whole(client: Client, tmp_path: Path) -> None:
    run = client.run("broken", ["c14-016-get-protect-2"])
    run.wait()
    bundle = run.download(tmp_path / "bundle")
    done = subprocess.run([binary("verbatim"), "verify", bundle], capture_output=True, text=True)
    assert done.returncode == 0, done
    assert Record.load(next(bundle.glob("*.rec"))) == run.record("c14-016-get-protect-2")
    with pytest.raises(FileExistsError):
        run.download(bundle)
    with pytest.raises(VerbatimError, match="no record of 'x'; it has 001-c14-016-get-protect-2.rec"):
        run.record("x")


def test_a_download_that_is_not_what_the_manifest_lists_is_refused(client: Client, tmp_path: Path, monkeypatch) -> None:
    run = client.run("sound", ["c14-024-node-info"])
    run.wait()
    whole = {name: run.read(name) for name in run.artifacts()}
    monkeypatch.setattr(run, "_chunks", lambda name: iter([whole[name].replace(b"PASS", b"pass")]))
    with pytest.raises(VerbatimError, match="run.json: expected SHA-256") as caught:
        run.download(tmp_path / "bundle")
    assert caught.value.code == "DATA_LOSS"


def test_parameters_and_seed_reach_the_run(client: Client) -> None:
    test = next(test.id for test in client.tests() if "lease" in test.id)
    run = client.run("rigs/sound", test, seed=9, exit_first=True)
    assert (run.rig, run.message.spec.seed, run.message.spec.exit_first) == ("sound", 9, True)
    run.wait()
    with pytest.raises(VerbatimError, match="no_such"):
        client.run("sound", test, parameters={"no_such": 1})


def test_runs_come_page_by_page(client: Client) -> None:
    made = [client.run("sound", "c14-024-node-info") for _ in range(3)]
    for run in made:
        run.wait()
    found = [run.name for run in itertools.islice(client.runs("rig=sound", page_size=2), 3)]
    assert found == [run.name for run in reversed(made)]
    with pytest.raises(VerbatimError, match="colour"):
        list(client.runs("colour=red"))


def test_leases_are_taken_renewed_and_given_back(client: Client) -> None:
    with client.reserve("held", lasts_s=60) as lease:
        assert (lease.state, lease.rig) == ("ACTIVE", "held")
        assert lease.name in [held.name for held in client.leases()]
        assert client.renew(lease.name, 120).lasts_s >= 60 and lease.renew(180).state == "ACTIVE"
        for given in (lease, lease.name):
            assert client.run(tests="c14-024-node-info", lease=given).wait().outcome is Outcome.PASS
        second = client.reserve(labels="kind=virtual", priority="low")
        second.end()
    assert lease.name not in [held.name for held in client.leases()]
    assert lease.name in [held.name for held in client.leases(ended=True)]


def test_a_run_on_a_rig_of_ones_own_does_not_wait(client: Client) -> None:
    with client.reserve("held"):
        assert client.run("held", "c14-024-node-info").wait().outcome is Outcome.PASS
        ended = client.run("held", "c14-024-node-info", own_lease=True, wait_at_most_s=0).wait()
        assert ended.outcome is Outcome.ERROR and "held by" in ended.reason
    with pytest.raises(VerbatimError, match="wait_at_most_s"):
        client.run("held", wait_at_most_s=-1)


def test_who_waits_for_a_rig_is_told_why_and_may_give_up(client: Client) -> None:
    with client.reserve("held"):
        waiting = client.reserve("held")
        assert waiting.state == "PENDING" and "held by" in waiting.reason
        with pytest.raises(TimeoutError, match="held by"):
            waiting.wait(timeout_s=0.2)
        waiting.end()
        with pytest.raises(VerbatimError, match=f"{waiting.name} ended") as caught:
            waiting.wait()
        assert caught.value.code == "FAILED_PRECONDITION"


def test_a_run_that_waits_is_cancelled_by_hand_or_at_the_end_of_its_block(client: Client) -> None:
    with client.reserve("held"):
        with client.run("held", "c14-024-node-info", own_lease=True) as run:
            assert run.state == "QUEUED" and run.outcome is Outcome.UNSPECIFIED
            with pytest.raises(TimeoutError, match="has not ended: QUEUED"):
                run.wait(timeout_s=0.2)
        ended = run.wait()
        assert (ended.outcome, ended.cause.name) == (Outcome.ERROR, "OPERATOR")
        assert (run.state, run.outcome, run.cause.name, run.reason) == ("ENDED", ended.outcome, "OPERATOR", ended.reason)


def test_what_is_wrong_is_said_in_the_daemons_words(client: Client, tmp_path: Path) -> None:
    for call, code, words in [
        (lambda: client.run("nowhere", []), "INVALID_ARGUMENT", "nowhere"),
        (lambda: client.run("sound", ["zzz"]), "INVALID_ARGUMENT", "zzz"),
        (lambda: client.get_run("runs/none"), None, ""),
        (lambda: Client(f"unix:{tmp_path}/none.sock").rigs(), "UNAVAILABLE", "verbatimd serve"),
        (lambda: Client("http://lab:1"), "INVALID_ARGUMENT", "https://HOST:PORT"),
        (lambda: Client("none"), "INVALID_ARGUMENT", "no address of a daemon"),
        (lambda: Client("lab:7443"), "INVALID_ARGUMENT", "ca, cert, key"),
        (lambda: Client("lab:7443", ca="/no.pem", cert="/no", key="/no"), "INVALID_ARGUMENT", "/no.pem: No such file"),
        (lambda: Client(f"unix:{tmp_path}/none.sock").run("sound"), "UNAVAILABLE", "verbatimd serve"),
        (lambda: client.run(), "INVALID_ARGUMENT", "needs a rig"),
        (lambda: client.run("sound", seed=-1), "INVALID_ARGUMENT", "seed is -1"),
        (lambda: client.run("sound", parameters={"wait_s": "x"}), "INVALID_ARGUMENT", "wait_s is 'x'"),
        (lambda: client.run("sound", priority="urgent"), "INVALID_ARGUMENT", "expected low, normal, high"),
        (lambda: client.reserve("sound", lasts_s=0), "INVALID_ARGUMENT", "lasts_s is 0"),
        (lambda: client.end("leases/none"), None, "none"),
        (lambda: client.renew(7, 60), "INVALID_ARGUMENT", "7 names none of leases"),
        (lambda: Client("https://localhost:1"), "INVALID_ARGUMENT", "ca, cert, key"),
    ]:
        with pytest.raises(VerbatimError) as caught:
            call()
        assert code in (None, caught.value.code) and words in str(caught.value), caught.value
