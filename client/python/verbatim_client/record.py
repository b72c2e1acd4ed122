"""Reads the record of a test: `NNN-TEST.rec` of a bundle.

A record has eight bytes `VBTMREC1`, then entries. Each entry is a message of record.proto, preceded by its length and
its CRC-32, both little-endian.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from ._proto.verbatim.record.v1 import record_pb2

_MAGIC = b"VBTMREC1"
#: Longest entry in bytes; a larger length means damage.
_LARGEST = (16 << 20) + (1 << 12)


class RecordError(ValueError):
    """The file is not a record, or is damaged. The text names the place."""


@dataclass(frozen=True)
class Frame:
    """A sent or received frame. Times are in nanoseconds since the rig was opened."""

    number: int
    label: str
    port: int
    received: bool
    earliest_ns: int
    latest_ns: int
    #: The source of the time: HARDWARE, KERNEL, OWN_CLOCK; empty in simulated time.
    source: str
    #: The end delimiter of a native InfiniBand packet: EGP, EBP, OTHER; empty for an Ethernet frame.
    delimiter: str
    data: bytes


@dataclass(frozen=True)
class Mad:
    """A sent or received MAD, 256 bytes."""

    exchange: int
    label: str
    received: bool
    #: The relation of a received MAD to the request: ANSWER, WRONG, AGAIN, LATE, STRAY, TRAP; empty for a sent MAD.
    how: str
    earliest_ns: int
    latest_ns: int
    data: bytes


@dataclass(frozen=True)
class Exchange:
    """A request and its responses. A retry is another exchange, with the next `attempt`."""

    number: int
    label: str
    #: The sender: TEST is the test's procedure; RUNNER is the sanity check, the restore or the liveness check.
    role: str
    #: The number of the retry; 0 for the first try.
    attempt: int
    port: int
    sent_earliest_ns: int
    sent_latest_ns: int
    request: bytes
    #: The MADs received with the request's transaction id, in order.
    arrivals: tuple[Mad, ...]
    #: The time at which the tester noticed that the deadline had passed without a response.
    silent_at_ns: int | None
    #: The host's error number, if it returned the MAD unanswered.
    returned_errno: int | None

    @property
    def answer(self) -> bytes | None:
        """The response, if it arrived in time, or None. `arrivals` also has late, repeated and wrong responses."""
        return next((mad.data for mad in self.arrivals if mad.how == "ANSWER"), None)


@dataclass(frozen=True)
class Record:
    """The record of one test."""

    test: str
    seed: int
    entries: tuple[record_pb2.Entry, ...]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Reads a record file. Raises RecordError when it is damaged or truncated, OSError when it cannot be read."""
        return cls.parse(Path(path).read_bytes(), str(path))

    @classmethod
    def parse(cls, data: bytes, name: str = "record") -> Record:
        """Parses the bytes of a record. Error messages contain `name`. Raises RecordError like `load`."""
        if data[:8] != _MAGIC:
            raise RecordError(f"{name}: expected the bytes {_MAGIC!r}, seen {data[:8]!r}: no record of Verbatim")
        entries: list[record_pb2.Entry] = []
        at = len(_MAGIC)
        while at < len(data):
            if len(data) - at < 8:
                raise RecordError(f"{name}: cut off at byte {at}")
            length, crc = struct.unpack_from("<II", data, at)
            body = data[at + 8 : at + 8 + length]
            if length > _LARGEST or len(body) < length:
                raise RecordError(f"{name}: cut off or damaged at byte {at}: an entry of {length} bytes")
            if zlib.crc32(body) != crc:
                raise RecordError(f"{name}: damaged at byte {at}: CRC-32 {zlib.crc32(body):#010x}, expected {crc:#010x}")
            try:
                entry = record_pb2.Entry.FromString(body)
            except DecodeError as error:
                raise RecordError(f"{name}: the entry at byte {at} is no entry: {error}") from error
            if (entry.WhichOneof("kind") == "begin") != (not entries):
                raise RecordError(f"{name}: damaged at byte {at}: a record has one Begin, in the first place")
            entries.append(entry)
            at += 8 + length
            if entry.WhichOneof("kind") == "end":
                break
        if not entries or entries[-1].WhichOneof("kind") != "end":
            raise RecordError(f"{name}: cut off at byte {at}: the last entry is not its end")
        if at != len(data):
            raise RecordError(f"{name}: damaged at byte {at}: bytes behind the end")
        if entries[-1].end.entries != len(entries) - 1:
            raise RecordError(
                f"{name}: damaged: {len(entries) - 1} entries, but its end counts {entries[-1].end.entries}"
            )
        return cls(entries[0].begin.test, entries[0].begin.seed, tuple(entries))

    def frames(self) -> list[Frame]:
        """Returns the frames, in order."""
        labels = self._labels()
        return [
            Frame(
                it.number,
                _name(labels, it.label),
                it.port,
                it.received,
                *_span(it.at),
                _word(record_pb2.TimeSource, it.at.source, "TIME_SOURCE_"),
                _word(record_pb2.Delimiter, it.delimiter, "DELIMITER_"),
                it.bytes,
            )
            for it in self._of("frame")
        ]

    def mads(self) -> list[Mad]:
        """Returns the MADs, in order."""
        labels, of_exchange, mads = self._labels(), dict[int, str](), []
        for entry in self.entries:
            kind = entry.WhichOneof("kind")
            if kind == "sent":
                it = entry.sent
                of_exchange[it.exchange] = _name(labels, it.label)
                mads.append(Mad(it.exchange, of_exchange[it.exchange], False, "", *_span(it.at), _unpacked(it.mad)))
            elif kind == "arrived":
                it = entry.arrived
                how, label = _word(record_pb2.Match, it.match, "MATCH_"), of_exchange.get(it.exchange, "")
                mads.append(Mad(it.exchange, label, True, how, *_span(it.at), _unpacked(it.mad)))
        return mads

    def exchanges(self) -> list[Exchange]:
        """Returns the exchanges of MADs, in order of the numbers that the evidence of a check names (`#21`)."""
        labels = self._labels()
        arrivals: dict[int, list[Mad]] = {}
        for mad in self.mads():
            if mad.received:
                arrivals.setdefault(mad.exchange, []).append(mad)
        silent = {it.exchange: _span(it.at)[1] for it in self._of("silence")}
        returned = {it.exchange: it.errno for it in self._of("returned")}
        return [
            Exchange(
                it.exchange,
                _name(labels, it.label),
                _word(record_pb2.Role, labels[it.label].role, "ROLE_") if it.label in labels else "",
                it.attempt,
                it.port,
                *_span(it.at),
                _unpacked(it.mad),
                tuple(arrivals.get(it.exchange, ())),
                silent.get(it.exchange),
                returned.get(it.exchange),
            )
            for it in self._of("sent")
        ]

    def to_pandas(self, what: str = "all") -> Any:
        """Returns a DataFrame of the "frames", "mads" or "exchanges"; "all" has frames and MADs, in order of time.

        Raises ImportError when pandas is not installed.
        """
        make = {"frames": self.frames, "mads": self.mads, "exchanges": self.exchanges}
        if what != "all" and what not in make:
            raise ValueError(f"{what!r}: expected one of all, {', '.join(make)}")
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: `pip install 'verbatim-client[pandas]'`") from error
        if what != "all":
            # Do not use asdict, which would convert the arrivals of an exchange to dicts.
            rows = [{field.name: getattr(it, field.name) for field in fields(it)} for it in make[what]()]
            kind = {"frames": Frame, "mads": Mad, "exchanges": Exchange}[what]
            return pandas.DataFrame(rows, columns=[field.name for field in fields(kind)])
        both = [{"kind": "frame", **asdict(frame)} for frame in self.frames()]
        both += [{"kind": "mad", **asdict(mad)} for mad in self.mads()]
        return pandas.DataFrame(sorted(both, key=lambda row: row["latest_ns"]))

    def _of(self, kind: str) -> Iterator[Any]:
        return (getattr(entry, kind) for entry in self.entries if entry.WhichOneof("kind") == kind)

    def _labels(self) -> dict[int, record_pb2.LabelDefinition]:
        return {label.number: label for label in self._of("label")}


def _name(labels: dict[int, record_pb2.LabelDefinition], number: int) -> str:
    return labels[number].name if number in labels else ""


def _word(enum: Any, value: int, prefix: str) -> str:
    """Returns an enum value's name without the prefix. UNSPECIFIED gives "", a value of a later version its number."""
    known = enum.DESCRIPTOR.values_by_number.get(value) if value else None
    return known.name.removeprefix(prefix) if known else str(value or "")


def _span(span: record_pb2.Span) -> tuple[int, int]:
    return span.earliest_ns, span.earliest_ns + span.width_ns


def _unpacked(packed: bytes) -> bytes:
    """Unpacks the 256 bytes of a MAD from runs: offset, length minus one, bytes. Bytes outside of all runs are 0."""
    mad, at = bytearray(256), 0
    while at + 2 <= len(packed):
        offset, length = packed[at], packed[at + 1] + 1
        run = packed[at + 2 : at + 2 + length]
        if len(run) < length or offset + length > len(mad):
            raise RecordError("a MAD of the record does not fit into 256 bytes")
        mad[offset : offset + length] = run
        at += 2 + length
    return bytes(mad)
