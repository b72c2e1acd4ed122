"""Reads the record of a test: `NNN-TEST.rec` of a bundle.

Eight bytes `VBTMREC1`, then entries, each behind its length and its CRC-32, both little-endian; an entry is a message of
record.proto.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ._proto.verbatim.record.v1 import record_pb2

_MAGIC = b"VBTMREC1"
#: No entry is longer: a length beyond it is damage, not a reason to read on.
_LARGEST = 64 << 20


class RecordError(ValueError):
    """The file is no record, or damaged; the text says where."""


@dataclass(frozen=True)
class Frame:
    """A frame that left or came in."""

    number: int
    label: str
    received: bool
    earliest_ns: int
    latest_ns: int
    data: bytes


@dataclass(frozen=True)
class Mad:
    """A MAD that left or came in, 256 bytes."""

    exchange: int
    label: str
    received: bool
    how: str
    earliest_ns: int
    latest_ns: int
    data: bytes


@dataclass(frozen=True)
class Record:
    """The record of one test."""

    test: str
    seed: int
    entries: tuple[record_pb2.Entry, ...]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Reads a record. Raises RecordError where it is damaged or cut off, OSError where it cannot be read."""
        return cls.parse(Path(path).read_bytes(), str(path))

    @classmethod
    def parse(cls, data: bytes, name: str = "record") -> Record:
        """As `load`, of bytes; `name` is for messages."""
        if data[:8] != _MAGIC:
            raise RecordError(f"{name}: expected the bytes {_MAGIC!r}, seen {data[:8]!r}: no record of Verbatim")
        entries = []
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
                entries.append(record_pb2.Entry.FromString(body))
            except Exception as error:
                raise RecordError(f"{name}: the entry at byte {at} is no entry: {error}") from error
            at += 8 + length
        if not entries or entries[0].WhichOneof("kind") != "begin":
            raise RecordError(f"{name}: the first entry does not say what was asked for")
        if entries[-1].WhichOneof("kind") != "end":
            raise RecordError(f"{name}: cut off: the last entry is not its end")
        return cls(entries[0].begin.test, entries[0].begin.seed, tuple(entries))

    def frames(self) -> list[Frame]:
        """The frames, in order."""
        labels = self._labels()
        frames = (entry.frame for entry in self.entries if entry.WhichOneof("kind") == "frame")
        return [
            Frame(it.number, labels.get(it.label, ""), it.received, *_span(it.at), it.bytes) for it in frames
        ]

    def mads(self) -> list[Mad]:
        """The MADs, in order; `how` is what an arrival is to the request: ANSWER, LATE, TRAP and so on."""
        labels, of_exchange, mads = self._labels(), {}, []
        for entry in self.entries:
            kind = entry.WhichOneof("kind")
            if kind == "sent":
                it = entry.sent
                of_exchange[it.exchange] = labels.get(it.label, "")
                mads.append(Mad(it.exchange, of_exchange[it.exchange], False, "", *_span(it.at), _unpacked(it.mad)))
            elif kind == "arrived":
                it = entry.arrived
                how = record_pb2.Match.Name(it.match).removeprefix("MATCH_")
                label = of_exchange.get(it.exchange, "")
                mads.append(Mad(it.exchange, label, True, how, *_span(it.at), _unpacked(it.mad)))
        return mads

    def to_pandas(self) -> Any:
        """All frames and MADs as a DataFrame, in the order of time. Raises ImportError where pandas is not installed."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: `pip install 'verbatim-client[pandas]'`") from error
        rows = [{"kind": "frame", **asdict(frame)} for frame in self.frames()]
        rows += [{"kind": "mad", **asdict(mad)} for mad in self.mads()]
        return pandas.DataFrame(sorted(rows, key=lambda row: row["latest_ns"]))

    def _labels(self) -> dict[int, str]:
        return {
            entry.label.number: entry.label.name for entry in self.entries if entry.WhichOneof("kind") == "label"
        }


def _span(span: record_pb2.Span) -> tuple[int, int]:
    return span.earliest_ns, span.earliest_ns + span.width_ns


def _unpacked(packed: bytes) -> bytes:
    """The 256 bytes of a MAD, of runs: offset, length less one, bytes. What no run covers is 0."""
    mad, at = bytearray(256), 0
    while at + 2 <= len(packed):
        offset, length = packed[at], packed[at + 1] + 1
        run = packed[at + 2 : at + 2 + length]
        if len(run) < length or offset + length > len(mad):
            raise RecordError("a MAD of the record does not fit into 256 bytes")
        mad[offset : offset + length] = run
        at += 2 + length
    return bytes(mad)
