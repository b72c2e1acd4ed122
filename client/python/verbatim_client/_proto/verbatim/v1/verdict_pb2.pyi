from verbatim_client._proto.verbatim.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CAUSE_DUT: Cause
CAUSE_OPERATOR: Cause
CAUSE_RIG: Cause
CAUSE_SPEC_AMBIGUOUS: Cause
CAUSE_TESTER: Cause
CAUSE_UNSPECIFIED: Cause
CHECK_RESULT_FAIL: CheckResult
CHECK_RESULT_INCONCLUSIVE: CheckResult
CHECK_RESULT_PASS: CheckResult
CHECK_RESULT_UNSPECIFIED: CheckResult
DESCRIPTOR: _descriptor.FileDescriptor
DEVIATION_SHOWED_EXPIRED: DeviationShowed
DEVIATION_SHOWED_NOT_SEEN: DeviationShowed
DEVIATION_SHOWED_SEEN: DeviationShowed
DEVIATION_SHOWED_UNSPECIFIED: DeviationShowed
OUTCOME_ERROR: Outcome
OUTCOME_FAIL: Outcome
OUTCOME_INCONCLUSIVE: Outcome
OUTCOME_NOT_APPLICABLE: Outcome
OUTCOME_PASS: Outcome
OUTCOME_SKIPPED: Outcome
OUTCOME_UNSPECIFIED: Outcome

class Check(_message.Message):
    __slots__ = ["about", "evidence", "exchanges", "expected", "follows_from", "frames", "given", "measured", "places", "result", "rule", "seen", "statement", "times"]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FROM_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    about: str
    evidence: _containers.RepeatedScalarFieldContainer[str]
    exchanges: _containers.RepeatedScalarFieldContainer[int]
    expected: str
    follows_from: int
    frames: _containers.RepeatedScalarFieldContainer[int]
    given: _containers.RepeatedScalarFieldContainer[str]
    measured: Measured
    places: _containers.RepeatedScalarFieldContainer[int]
    result: CheckResult
    rule: str
    seen: str
    statement: str
    times: int
    def __init__(self, statement: _Optional[str] = ..., result: _Optional[_Union[CheckResult, str]] = ..., about: _Optional[str] = ..., expected: _Optional[str] = ..., seen: _Optional[str] = ..., evidence: _Optional[_Iterable[str]] = ..., exchanges: _Optional[_Iterable[int]] = ..., frames: _Optional[_Iterable[int]] = ..., measured: _Optional[_Union[Measured, _Mapping]] = ..., rule: _Optional[str] = ..., follows_from: _Optional[int] = ..., given: _Optional[_Iterable[str]] = ..., places: _Optional[_Iterable[int]] = ..., times: _Optional[int] = ...) -> None: ...

class KnownDeviation(_message.Message):
    __slots__ = ["device", "expires", "explains_all", "findings", "id", "reason", "showed", "source", "statement", "test", "words"]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    EXPLAINS_ALL_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SHOWED_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    device: str
    expires: str
    explains_all: bool
    findings: int
    id: str
    reason: str
    showed: DeviationShowed
    source: str
    statement: str
    test: str
    words: str
    def __init__(self, test: _Optional[str] = ..., id: _Optional[str] = ..., showed: _Optional[_Union[DeviationShowed, str]] = ..., findings: _Optional[int] = ..., explains_all: bool = ..., device: _Optional[str] = ..., statement: _Optional[str] = ..., reason: _Optional[str] = ..., source: _Optional[str] = ..., expires: _Optional[str] = ..., words: _Optional[str] = ...) -> None: ...

class Measured(_message.Message):
    __slots__ = ["least_ns", "lower_ns", "most_ns", "upper_ns"]
    LEAST_NS_FIELD_NUMBER: _ClassVar[int]
    LOWER_NS_FIELD_NUMBER: _ClassVar[int]
    MOST_NS_FIELD_NUMBER: _ClassVar[int]
    UPPER_NS_FIELD_NUMBER: _ClassVar[int]
    least_ns: int
    lower_ns: int
    most_ns: int
    upper_ns: int
    def __init__(self, least_ns: _Optional[int] = ..., most_ns: _Optional[int] = ..., lower_ns: _Optional[int] = ..., upper_ns: _Optional[int] = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ["exchanges", "spec_ambiguous", "text"]
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    SPEC_AMBIGUOUS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    exchanges: _containers.RepeatedScalarFieldContainer[int]
    spec_ambiguous: bool
    text: str
    def __init__(self, text: _Optional[str] = ..., spec_ambiguous: bool = ..., exchanges: _Optional[_Iterable[int]] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ["aliases", "cause", "findings", "observations", "outcome", "passed", "reason", "restored", "statements", "test"]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    aliases: _containers.RepeatedScalarFieldContainer[str]
    cause: Cause
    findings: _containers.RepeatedCompositeFieldContainer[Check]
    observations: _containers.RepeatedCompositeFieldContainer[Observation]
    outcome: Outcome
    passed: _containers.RepeatedCompositeFieldContainer[Check]
    reason: str
    restored: _containers.RepeatedCompositeFieldContainer[_record_pb2.Restored]
    statements: _containers.RepeatedScalarFieldContainer[str]
    test: str
    def __init__(self, test: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., cause: _Optional[_Union[Cause, str]] = ..., reason: _Optional[str] = ..., statements: _Optional[_Iterable[str]] = ..., findings: _Optional[_Iterable[_Union[Check, _Mapping]]] = ..., passed: _Optional[_Iterable[_Union[Check, _Mapping]]] = ..., observations: _Optional[_Iterable[_Union[Observation, _Mapping]]] = ..., restored: _Optional[_Iterable[_Union[_record_pb2.Restored, _Mapping]]] = ...) -> None: ...

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class CheckResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class DeviationShowed(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
