from google.protobuf import timestamp_pb2 as _timestamp_pb2
from verbatim_client._proto.verbatim.record.v1 import record_pb2 as _record_pb2
from verbatim_client._proto.verbatim.v1 import verdict_pb2 as _verdict_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
RUN_STATE_ENDED: RunState
RUN_STATE_QUEUED: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_UNSPECIFIED: RunState

class LogLine(_message.Message):
    __slots__ = ["text"]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class RestoreEnded(_message.Message):
    __slots__ = ["areas"]
    AREAS_FIELD_NUMBER: _ClassVar[int]
    areas: _containers.RepeatedCompositeFieldContainer[_record_pb2.Restored]
    def __init__(self, areas: _Optional[_Iterable[_Union[_record_pb2.Restored, _Mapping]]] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ["cursor", "log_line", "restore_ended", "state_changed", "step_started", "test_ended", "test_started", "time"]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LOG_LINE_FIELD_NUMBER: _ClassVar[int]
    RESTORE_ENDED_FIELD_NUMBER: _ClassVar[int]
    STATE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    STEP_STARTED_FIELD_NUMBER: _ClassVar[int]
    TEST_ENDED_FIELD_NUMBER: _ClassVar[int]
    TEST_STARTED_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    cursor: int
    log_line: LogLine
    restore_ended: RestoreEnded
    state_changed: RunStateChanged
    step_started: StepStarted
    test_ended: TestEnded
    test_started: TestStarted
    time: _timestamp_pb2.Timestamp
    def __init__(self, cursor: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., state_changed: _Optional[_Union[RunStateChanged, _Mapping]] = ..., test_started: _Optional[_Union[TestStarted, _Mapping]] = ..., step_started: _Optional[_Union[StepStarted, _Mapping]] = ..., test_ended: _Optional[_Union[TestEnded, _Mapping]] = ..., restore_ended: _Optional[_Union[RestoreEnded, _Mapping]] = ..., log_line: _Optional[_Union[LogLine, _Mapping]] = ...) -> None: ...

class RunInfo(_message.Message):
    __slots__ = ["catalogue", "fingerprint", "host", "id", "outcome", "record", "rig", "rig_kind", "rig_options", "seed", "started_ns"]
    CATALOGUE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    RIG_FIELD_NUMBER: _ClassVar[int]
    RIG_KIND_FIELD_NUMBER: _ClassVar[int]
    RIG_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    catalogue: str
    fingerprint: str
    host: str
    id: str
    outcome: _verdict_pb2.Outcome
    record: str
    rig: str
    rig_kind: str
    rig_options: str
    seed: int
    started_ns: int
    def __init__(self, id: _Optional[str] = ..., rig: _Optional[str] = ..., rig_kind: _Optional[str] = ..., seed: _Optional[int] = ..., catalogue: _Optional[str] = ..., started_ns: _Optional[int] = ..., host: _Optional[str] = ..., fingerprint: _Optional[str] = ..., outcome: _Optional[_Union[_verdict_pb2.Outcome, str]] = ..., record: _Optional[str] = ..., rig_options: _Optional[str] = ...) -> None: ...

class RunSpec(_message.Message):
    __slots__ = ["exit_first", "parameters", "patterns", "rig", "seed"]
    class ParametersEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    EXIT_FIRST_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    RIG_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    exit_first: bool
    parameters: _containers.ScalarMap[str, int]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    rig: str
    seed: int
    def __init__(self, rig: _Optional[str] = ..., patterns: _Optional[_Iterable[str]] = ..., parameters: _Optional[_Mapping[str, int]] = ..., seed: _Optional[int] = ..., exit_first: bool = ...) -> None: ...

class RunStateChanged(_message.Message):
    __slots__ = ["cause", "outcome", "reason", "state"]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    cause: _verdict_pb2.Cause
    outcome: _verdict_pb2.Outcome
    reason: str
    state: RunState
    def __init__(self, state: _Optional[_Union[RunState, str]] = ..., outcome: _Optional[_Union[_verdict_pb2.Outcome, str]] = ..., cause: _Optional[_Union[_verdict_pb2.Cause, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class StepStarted(_message.Message):
    __slots__ = ["step"]
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: str
    def __init__(self, step: _Optional[str] = ...) -> None: ...

class TestEnded(_message.Message):
    __slots__ = ["known_deviations", "verdict"]
    KNOWN_DEVIATIONS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    known_deviations: _containers.RepeatedCompositeFieldContainer[_verdict_pb2.KnownDeviation]
    verdict: _verdict_pb2.Verdict
    def __init__(self, verdict: _Optional[_Union[_verdict_pb2.Verdict, _Mapping]] = ..., known_deviations: _Optional[_Iterable[_Union[_verdict_pb2.KnownDeviation, _Mapping]]] = ...) -> None: ...

class TestStarted(_message.Message):
    __slots__ = ["place", "test", "total"]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    place: int
    test: str
    total: int
    def __init__(self, test: _Optional[str] = ..., place: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
