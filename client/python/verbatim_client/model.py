"""What the daemon says, as plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from ._proto.verbatim.v1 import catalog_pb2, rig_pb2, run_pb2, verdict_pb2


class Outcome(enum.Enum):
    """What a test or a run came to, in order of gravity."""

    UNSPECIFIED = 0
    SKIPPED = 1
    NOT_APPLICABLE = 2
    PASS = 3
    INCONCLUSIVE = 4
    FAIL = 5
    ERROR = 6


class Cause(enum.Enum):
    """What an outcome is due to."""

    UNSPECIFIED = 0
    DUT = 1
    TESTER = 2
    RIG = 3
    OPERATOR = 4
    SPEC_AMBIGUOUS = 5


def outcome(value: int) -> Outcome:
    """An outcome of the wire. One that this version does not know is no pass: it is UNSPECIFIED."""
    try:
        return Outcome(value)
    except ValueError:
        return Outcome.UNSPECIFIED


def cause(value: int) -> Cause:
    """A cause of the wire."""
    try:
        return Cause(value)
    except ValueError:
        return Cause.UNSPECIFIED


@dataclass(frozen=True)
class Check:
    """One check of one statement: what was looked at, what was expected, what was seen, and the packets."""

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
    """What a judge says of a test."""

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
    """What a deviation that is known of such devices came to in a test."""

    UNSPECIFIED = 0
    SEEN = 1
    NOT_SEEN = 2
    EXPIRED = 3


def showed(value: int) -> Showed:
    """As the wire has it. What this version does not know is not SEEN: it excuses nothing."""
    try:
        return Showed(value)
    except ValueError:
        return Showed.UNSPECIFIED


@dataclass(frozen=True)
class KnownDeviation:
    """A deviation that is known of devices of a family, and what it came to in one test. It changes no verdict."""

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
        """Its state in a word, such as "IDLE"."""
        return rig_pb2.RigState.Name(self.message.state).removeprefix("RIG_STATE_")

    @property
    def reason(self) -> str:
        """Why nobody gets it, and what to do; empty when somebody can."""
        return self.message.state_reason

    @property
    def kind(self) -> str:
        """Such as "virtual" or "umad"."""
        return self.message.kind

    @property
    def labels(self) -> tuple[str, ...]:
        """What can be asked for in a lease."""
        return tuple(self.message.labels)

    @classmethod
    def of(cls, it: rig_pb2.Rig) -> Rig:
        return cls(it.name.removeprefix("rigs/"), it)


@dataclass(frozen=True)
class Test:
    """A test of the daemon's catalogue."""

    __test__ = False  # It is not one of pytest's.

    id: str
    about: str
    statements: tuple[str, ...]
    aliases: tuple[str, ...]

    @classmethod
    def of(cls, it: catalog_pb2.Test) -> Test:
        return cls(it.id, it.about, tuple(it.statements), tuple(it.aliases))


@dataclass(frozen=True)
class Statement:
    """A compliance statement of the architecture, in our own words."""

    id: str
    title: str
    about: str
    source: str

    @classmethod
    def of(cls, it: catalog_pb2.Statement) -> Statement:
        return cls(it.id, it.title, it.about, it.source)


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

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
        """The verdict of a test. KeyError when the run has none of it."""
        for verdict in self.verdicts:
            if verdict.test == test:
                return verdict
        raise KeyError(f"{self.name} has no verdict of {test!r}; it ran {[it.test for it in self.verdicts]}")
