"""The client against a real daemon."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from verbatim_client import Client, Outcome, VerbatimError
from verbatim_client.record import Record, RecordError

from .conftest import ROOT, binary


@pytest.fixture
def client(daemon: str):
    with Client(daemon) as client:
        yield client


def test_rigs_tests_and_statements_are_listed(client: Client) -> None:
    assert {rig.name for rig in client.rigs()} >= {"sound", "broken"}
    assert [test.id for test in client.tests(["c14-024-node-info"])] == ["c14-024-node-info"]
    assert any(statement.id == "C14-16" for statement in client.statements())


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


def test_a_bundle_that_is_downloaded_is_whole_and_its_records_are_read(client: Client, tmp_path: Path) -> None:
    run = client.run("broken", ["c14-016-get-protect-2"])
    run.wait()
    bundle = run.download(tmp_path / "bundle")
    done = subprocess.run([binary("verbatim"), "verify", bundle], capture_output=True, text=True)
    assert done.returncode == 0, done
    record = Record.load(next(bundle.glob("*.rec")))
    mads = record.mads()
    assert record.test == "c14-016-get-protect-2" and len(mads) > 10
    assert all(len(mad.data) == 256 and mad.data[0] == 1 for mad in mads)
    assert {"ANSWER", ""} <= {mad.how for mad in mads}
    with pytest.raises(FileExistsError):
        run.download(bundle)


def test_a_damaged_record_is_refused_wherever_the_damage_is(client: Client) -> None:
    run = client.run("sound", ["c14-024-node-info"])
    run.wait()
    name = next(name for name in run.artifacts() if name.endswith(".rec"))
    data = run.read(name)
    Record.parse(data)
    for at in range(0, len(data), 41):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(RecordError):
            Record.parse(bytes(damaged))
        with pytest.raises(RecordError):
            Record.parse(data[:at])


def test_leases_are_taken_renewed_and_given_back(client: Client) -> None:
    lease = client.reserve("sound", lasts_s=60)
    try:
        assert lease.name in [held.name for held in client.leases()]
        assert client.renew(lease.name, 120).lasts_s >= 60
        assert client.run("", ["c14-024-node-info"], lease=lease.name).wait().outcome is Outcome.PASS
    finally:
        client.end(lease.name)
    assert lease.name not in [held.name for held in client.leases()]


def test_what_is_wrong_is_said_in_the_daemons_words(client: Client, tmp_path: Path) -> None:
    for call, code, words in [
        (lambda: client.run("nowhere", []), "INVALID_ARGUMENT", "nowhere"),
        (lambda: client.run("sound", ["zzz"]), "INVALID_ARGUMENT", "zzz"),
        (lambda: client.get_run("runs/none"), None, ""),
        (lambda: Client(f"unix:{tmp_path}/none.sock").rigs(), "UNAVAILABLE", "verbatimd serve"),
        (lambda: Client("tcp:1"), "INVALID_ARGUMENT", "https://HOST:PORT"),
        (lambda: Client("https://localhost:1"), "INVALID_ARGUMENT", "ca, cert, key"),
    ]:
        with pytest.raises(VerbatimError) as caught:
            call()
        assert code in (None, caught.value.code) and words in str(caught.value), caught.value


def test_the_example_of_the_documentation_runs_as_written(daemon: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VERBATIM_SERVER", daemon)
    page = (ROOT / "docs" / "python.md").read_text()
    example = page.split("```python\n", 1)[1].split("```", 1)[0]
    exec(compile(example, "docs/python.md", "exec"), {})
    shown = page.split("prints\n\n```\n", 1)[1].split("```", 1)[0]
    assert capsys.readouterr().out == shown


def test_the_stubs_are_those_of_the_protocol() -> None:
    """Every message and field of the .proto files is in the stubs, under its number."""
    import re

    from verbatim_client._proto.verbatim.v1 import catalog_pb2, event_pb2, lease_pb2, rig_pb2, run_pb2, verdict_pb2

    for module in (catalog_pb2, event_pb2, lease_pb2, rig_pb2, run_pb2, verdict_pb2):
        text = (ROOT / "proto" / module.DESCRIPTOR.name).read_text()
        text = re.sub(r"//.*", "", text)
        for message, body in re.findall(r"^message (\w+) \{(.*?)\}$", text, re.S | re.M):
            fields = dict(re.findall(r"(\w+) = (\d+);", re.sub(r"enum \w+ \{.*?\}", "", body, flags=re.S)))
            known = {field.name: str(field.number) for field in module.DESCRIPTOR.message_types_by_name[message].fields}
            assert fields == known, f"{message}: generate the stubs anew (docs/python.md)"
