"""Records of real runs, and damaged records."""

from __future__ import annotations

import builtins
import struct
import sys
import zlib
from types import SimpleNamespace

import pytest

from verbatim_client import Client
from verbatim_client._proto.verbatim.record.v1 import record_pb2 as pb
from verbatim_client.record import Record, RecordError

TEST = "c14-016-get-protect-2"


@pytest.fixture(scope="module")
def bytes_of_a_record(daemon: str) -> bytes:
    with Client(daemon) as client:
        run = client.run("broken", TEST, seed=7)
        run.wait()
        return run.read(f"001-{TEST}.rec")


def written(*entries: pb.Entry) -> bytes:
    """Returns a record in the product's format."""
    bodies = [entry.SerializeToString() for entry in entries]
    return b"VBTMREC1" + b"".join(struct.pack("<II", len(body), zlib.crc32(body)) + body for body in bodies)


BEGIN = pb.Entry(begin=pb.Begin(test="t", seed=3))


def end(entries: int) -> pb.Entry:
    return pb.Entry(end=pb.End(entries=entries))


def test_exchanges_are_those_that_the_evidence_names(daemon: str) -> None:
    with Client(daemon) as client:
        run = client.run("broken", TEST, seed=7)
        evidence = run.wait().verdicts[0].findings[0].evidence[0]
        record = run.record(TEST)
    number = int(evidence.split()[0].removeprefix("#"))
    exchange = next(it for it in record.exchanges() if it.number == number)
    assert f'"{exchange.label}"' in evidence and exchange.role == "TEST"
    assert len(exchange.request) == 256 and exchange.request[:2] == b"\x01\x81"
    assert exchange.answer is not None and exchange.answer[3] == 0x81  # SubnGetResp
    assert exchange.sent_latest_ns <= exchange.arrivals[0].latest_ns and exchange.silent_at_ns is None
    assert [it.number for it in record.exchanges()] == list(range(1, len(record.exchanges()) + 1))
    assert record.frames() == []


def test_a_sound_device_is_silent_where_it_must(daemon: str) -> None:
    with Client(daemon) as client:
        run = client.run("sound", TEST)
        run.wait()
        silent = [it for it in run.record(TEST).exchanges() if it.label == "wrong key"]
    assert silent and all(it.answer is None and it.silent_at_ns and not it.arrivals for it in silent)


def test_frames_of_a_transport_test_have_labels_and_bytes(daemon: str) -> None:
    with Client(daemon) as client:
        test = next(test.id for test in client.tests("c09-*"))
        run = client.run("sound", test)
        run.wait()
        frames = run.record(test).frames()
    assert {frame.received for frame in frames} == {True, False}
    assert [frame.number for frame in frames] == list(range(1, len(frames) + 1))
    assert all(frame.earliest_ns <= frame.latest_ns and frame.data for frame in frames)
    assert any(frame.label for frame in frames if not frame.received)


def test_damage_is_found_wherever_it_is(bytes_of_a_record: bytes) -> None:
    assert Record.parse(bytes_of_a_record).test == TEST
    for at in range(0, len(bytes_of_a_record), 41):
        damaged = bytearray(bytes_of_a_record)
        damaged[at] ^= 0x10
        with pytest.raises(RecordError):
            Record.parse(bytes(damaged))
        with pytest.raises(RecordError):
            Record.parse(bytes_of_a_record[:at])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x0a\x0d\x0d\x0a", "no record of Verbatim"),
        (written(end(0)), "one Begin"),
        (written(BEGIN), "its end"),
        (written(BEGIN, BEGIN, end(2)), "one Begin"),
        (written(BEGIN, end(7)), "counts 7"),
        (written(BEGIN, end(1)) + b"x", "bytes behind the end"),
        (b"VBTMREC1" + struct.pack("<II", 1 << 31, 0), "an entry of 2147483648 bytes"),
    ],
)
def test_what_is_no_whole_record_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        Record.parse(data)


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        Record.load(tmp_path / "none.rec")


def test_frames_tell_how_their_time_was_taken_and_what_a_later_version_says_is_a_number() -> None:
    span = pb.Span(earliest_ns=5, width_ns=2, source=pb.TIME_SOURCE_KERNEL)
    label = pb.Entry(label=pb.LabelDefinition(number=1, name="probe"))
    sent = pb.Entry(frame=pb.Frame(number=1, label=1, port=1, at=span, bytes=b"ab"))
    came = pb.Entry(frame=pb.Frame(number=2, received=True, delimiter=9, bytes=b"c"))
    first, second = Record.parse(written(BEGIN, label, sent, came, end(4))).frames()
    assert (first.label, first.source, first.delimiter, first.latest_ns) == ("probe", "KERNEL", "", 7)
    assert (second.label, second.source, second.delimiter) == ("", "", "9")


def test_without_pandas_the_error_says_what_to_install(bytes_of_a_record: bytes, monkeypatch) -> None:
    real = builtins.__import__

    def missing(name: str, *more: object) -> object:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"verbatim-client\[pandas\]"):
        Record.parse(bytes_of_a_record).to_pandas()


def test_with_pandas_there_is_a_row_for_each(bytes_of_a_record: bytes, monkeypatch) -> None:
    # Replace pandas, which may not be installed, and check the rows for its DataFrame.
    given = SimpleNamespace(DataFrame=lambda rows, columns=None: rows)
    monkeypatch.setitem(sys.modules, "pandas", given)
    record = Record.parse(bytes_of_a_record)
    assert len(record.to_pandas()) == len(record.mads())
    assert [row["number"] for row in record.to_pandas("exchanges")] == [it.number for it in record.exchanges()]
    assert record.to_pandas("frames") == []
    with pytest.raises(ValueError, match="expected one of all, frames"):
        record.to_pandas("frame")
