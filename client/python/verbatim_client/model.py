"""The daemon's messages as plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from ._proto.verbatim.v1 import catalog_pb2, rig_pb2, run_pb2, verdict_pb2


class Outcome(enum.Enum):
    """The outcome of a test or a run, in order of gravity."""

    UNSPECIFIED = 0
    SKIPPED = 1
    NOT_APPLICABLE = 2
    PASS = 3
    INCONCLUSIVE = 4
    FAIL = 5
    ERROR = 6


class Cause(enum.Enum):
    """The cause of an outcome."""

    UNSPECIFIED = 0
    DUT = 1
    TESTER = 2
    RIG = 3
    OPERATOR = 4
    SPEC_AMBIGUOUS = 5


def outcome(value: int) -> Outcome:
    """Converts an outcome of the protocol. A value unknown to this version becomes UNSPECIFIED."""
    try:
        return Outcome(value)
    except ValueError:
        return Outcome.UNSPECIFIED


def cause(value: int) -> Cause:
    """Converts a cause of the protocol."""
    try:
        return Cause(value)
    except ValueError:
        return Cause.UNSPECIFIED


@dataclass(frozen=True)
class Check:
    """One check of one statement: its subject, the expected and the seen value, and the packets."""

    statement: str
    about: str
    expected: str
    seen: str
    evidence: tuple[str, ...] = ()
    rule: str = ""
    given: tuple[str, ...] = ()
    follows_from: int | None = None

    @classmethod
    def of(cls, it: verdict_pb2.Check) -> Check:
        follows_from = it.follows_from if it.HasField("follows_from") else None
        return cls(
            it.statement, it.about, it.expected, it.seen, tuple(it.evidence), it.rule, tuple(it.given), follows_from
        )


@dataclass(frozen=True)
class Verdict:
    """The verdict on a test."""

    test: str
    outcome: Outcome
    cause: Cause
    reason: str
    statements: tuple[str, ...] = ()
    findings: tuple[Check, ...] = ()
    observations: tuple[str, ...] = ()

    @classmethod
    def of(cls, it: verdict_pb2.Verdict) -> Verdict:
        return cls(
            it.test,
            outcome(it.outcome),
            cause(it.cause),
            it.reason,
            tuple(it.statements),
            tuple(Check.of(check) for check in it.findings),
            tuple(observation.text for observation in it.observations),
        )


class Showed(enum.Enum):
    """Whether a known deviation showed in a test."""

    UNSPECIFIED = 0
    SEEN = 1
    NOT_SEEN = 2
    EXPIRED = 3


def showed(value: int) -> Showed:
    """Converts a value of the protocol. A value unknown to this version becomes UNSPECIFIED, which excuses no FAIL."""
    try:
        return Showed(value)
    except ValueError:
        return Showed.UNSPECIFIED


@dataclass(frozen=True)
class KnownDeviation:
    """A known deviation of a family of devices, and whether it showed in one test. Known deviations change no
    verdict."""

    test: str
    id: str
    showed: Showed
    explains_all: bool
    statement: str
    reason: str
    words: str
    message: Any = field(repr=False)

    @classmethod
    def of(cls, it: verdict_pb2.KnownDeviation) -> KnownDeviation:
        return cls(it.test, it.id, showed(it.showed), it.explains_all, it.statement, it.reason, it.words, it)


@dataclass(frozen=True)
class Rig:
    """A rig of the daemon."""

    name: str
    message: Any = field(repr=False)

    @property
    def state(self) -> str:
        """The state of the rig, such as "IDLE"."""
        return rig_pb2.RigState.Name(self.message.state).removeprefix("RIG_STATE_")

    @property
    def reason(self) -> str:
        """The reason why the rig is out of use, and advice; empty when the rig can be leased."""
        return self.message.state_reason

    @property
    def kind(self) -> str:
        """The kind of the rig, such as "virtual" or "umad"."""
        return self.message.kind

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels by which a lease can request the rig."""
        return tuple(self.message.labels)

    @classmethod
    def of(cls, it: rig_pb2.Rig) -> Rig:
        return cls(it.name.removeprefix("rigs/"), it)


@dataclass(frozen=True)
class Test:
    """A test of the daemon's catalogue."""

    __test__ = False  # Not a test class of pytest.

    id: str
    about: str
    statements: tuple[str, ...]
    aliases: tuple[str, ...]

    @classmethod
    def of(cls, it: catalog_pb2.Test) -> Test:
        return cls(it.id, it.about, tuple(it.statements), tuple(it.aliases))


@dataclass(frozen=True)
class Statement:
    """A compliance statement of the architecture, reworded."""

    id: str
    title: str
    about: str
    source: str

    @classmethod
    def of(cls, it: catalog_pb2.Statement) -> Statement:
        return cls(it.id, it.title, it.about, it.source)


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    name: str
    outcome: Outcome
    cause: Cause
    reason: str
    verdicts: tuple[Verdict, ...]
    message: Any = field(repr=False)
    known_deviations: tuple[KnownDeviation, ...] = ()

    @classmethod
    def of(cls, it: run_pb2.Run) -> Ended:
        verdicts = tuple(Verdict.of(verdict) for verdict in it.verdicts)
        known = tuple(KnownDeviation.of(known) for known in it.known_deviations)
        return cls(it.name, outcome(it.outcome), cause(it.cause), it.reason, verdicts, it, known)

    def verdict(self, test: str) -> Verdict:
        """Returns the verdict of a test. Raises KeyError when the run has no verdict of the test."""
        for verdict in self.verdicts:
            if verdict.test == test:
                return verdict
        raise KeyError(f"{self.name} has no verdict of {test!r}; it ran {[it.test for it in self.verdicts]}")
