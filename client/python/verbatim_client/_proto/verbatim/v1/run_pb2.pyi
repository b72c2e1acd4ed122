from google.protobuf import timestamp_pb2 as _timestamp_pb2
from verbatim_client._proto.verbatim.v1 import event_pb2 as _event_pb2
from verbatim_client._proto.verbatim.v1 import lease_pb2 as _lease_pb2
from verbatim_client._proto.verbatim.v1 import verdict_pb2 as _verdict_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Artifact(_message.Message):
    __slots__ = ["name", "size_bytes"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CancelRunResponse(_message.Message):
    __slots__ = ["run"]
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class CreateRunRequest(_message.Message):
    __slots__ = ["attended", "lease", "own_lease", "priority", "request_id", "spec", "wait_at_most_s"]
    ATTENDED_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    OWN_LEASE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    WAIT_AT_MOST_S_FIELD_NUMBER: _ClassVar[int]
    attended: bool
    lease: str
    own_lease: bool
    priority: _lease_pb2.Priority
    request_id: str
    spec: _event_pb2.RunSpec
    wait_at_most_s: int
    def __init__(self, request_id: _Optional[str] = ..., spec: _Optional[_Union[_event_pb2.RunSpec, _Mapping]] = ..., lease: _Optional[str] = ..., priority: _Optional[_Union[_lease_pb2.Priority, str]] = ..., own_lease: bool = ..., wait_at_most_s: _Optional[int] = ..., attended: bool = ...) -> None: ...

class CreateRunResponse(_message.Message):
    __slots__ = ["run"]
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class DeleteRunRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteRunResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ["run"]
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ListArtifactsRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListArtifactsResponse(_message.Message):
    __slots__ = ["artifacts"]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    def __init__(self, artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ["filter", "page_size", "page_token"]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: str
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ["next_page_token", "runs"]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    next_page_token: str
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PinRunRequest(_message.Message):
    __slots__ = ["name", "pinned"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    name: str
    pinned: bool
    def __init__(self, name: _Optional[str] = ..., pinned: bool = ...) -> None: ...

class PinRunResponse(_message.Message):
    __slots__ = ["run"]
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ReadArtifactRequest(_message.Message):
    __slots__ = ["artifact", "name"]
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    artifact: str
    name: str
    def __init__(self, name: _Optional[str] = ..., artifact: _Optional[str] = ...) -> None: ...

class ReadArtifactResponse(_message.Message):
    __slots__ = ["data"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ["cause", "create_time", "end_time", "info", "known_deviations", "lease", "name", "outcome", "owner", "owner_name", "pinned", "purge_time", "queue_place", "reason", "spec", "start_time", "state", "tests", "verdicts"]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    KNOWN_DEVIATIONS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OWNER_NAME_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    PURGE_TIME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PLACE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TESTS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    cause: _verdict_pb2.Cause
    create_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    info: _event_pb2.RunInfo
    known_deviations: _containers.RepeatedCompositeFieldContainer[_verdict_pb2.KnownDeviation]
    lease: str
    name: str
    outcome: _verdict_pb2.Outcome
    owner: str
    owner_name: str
    pinned: bool
    purge_time: _timestamp_pb2.Timestamp
    queue_place: int
    reason: str
    spec: _event_pb2.RunSpec
    start_time: _timestamp_pb2.Timestamp
    state: _event_pb2.RunState
    tests: _containers.RepeatedScalarFieldContainer[str]
    verdicts: _containers.RepeatedCompositeFieldContainer[_verdict_pb2.Verdict]
    def __init__(self, name: _Optional[str] = ..., spec: _Optional[_Union[_event_pb2.RunSpec, _Mapping]] = ..., tests: _Optional[_Iterable[str]] = ..., state: _Optional[_Union[_event_pb2.RunState, str]] = ..., outcome: _Optional[_Union[_verdict_pb2.Outcome, str]] = ..., cause: _Optional[_Union[_verdict_pb2.Cause, str]] = ..., reason: _Optional[str] = ..., verdicts: _Optional[_Iterable[_Union[_verdict_pb2.Verdict, _Mapping]]] = ..., info: _Optional[_Union[_event_pb2.RunInfo, _Mapping]] = ..., owner: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., queue_place: _Optional[int] = ..., pinned: bool = ..., purge_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lease: _Optional[str] = ..., known_deviations: _Optional[_Iterable[_Union[_verdict_pb2.KnownDeviation, _Mapping]]] = ..., owner_name: _Optional[str] = ...) -> None: ...

class WatchRunRequest(_message.Message):
    __slots__ = ["cursor", "name"]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    cursor: int
    name: str
    def __init__(self, name: _Optional[str] = ..., cursor: _Optional[int] = ...) -> None: ...

class WatchRunResponse(_message.Message):
    __slots__ = ["event"]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: _event_pb2.RunEvent
    def __init__(self, event: _Optional[_Union[_event_pb2.RunEvent, _Mapping]] = ...) -> None: ...
