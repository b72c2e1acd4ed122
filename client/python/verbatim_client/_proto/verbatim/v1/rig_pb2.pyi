from verbatim_client._proto.verbatim.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
RIG_STATE_BUSY: RigState
RIG_STATE_DRAINING: RigState
RIG_STATE_IDLE: RigState
RIG_STATE_QUARANTINED: RigState
RIG_STATE_UNREACHABLE: RigState
RIG_STATE_UNSPECIFIED: RigState

class DrainRigRequest(_message.Message):
    __slots__ = ["name", "reason"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DrainRigResponse(_message.Message):
    __slots__ = ["rig"]
    RIG_FIELD_NUMBER: _ClassVar[int]
    rig: Rig
    def __init__(self, rig: _Optional[_Union[Rig, _Mapping]] = ...) -> None: ...

class GetRigRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetRigResponse(_message.Message):
    __slots__ = ["rig"]
    RIG_FIELD_NUMBER: _ClassVar[int]
    rig: Rig
    def __init__(self, rig: _Optional[_Union[Rig, _Mapping]] = ...) -> None: ...

class ListRigsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ListRigsResponse(_message.Message):
    __slots__ = ["rigs"]
    RIGS_FIELD_NUMBER: _ClassVar[int]
    rigs: _containers.RepeatedCompositeFieldContainer[Rig]
    def __init__(self, rigs: _Optional[_Iterable[_Union[Rig, _Mapping]]] = ...) -> None: ...

class ReloadRigsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ReloadRigsResponse(_message.Message):
    __slots__ = ["added", "changed", "leaving", "removed"]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    added: _containers.RepeatedScalarFieldContainer[str]
    changed: _containers.RepeatedScalarFieldContainer[str]
    leaving: _containers.RepeatedScalarFieldContainer[str]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, added: _Optional[_Iterable[str]] = ..., changed: _Optional[_Iterable[str]] = ..., removed: _Optional[_Iterable[str]] = ..., leaving: _Optional[_Iterable[str]] = ...) -> None: ...

class RestoreRigRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RestoreRigResponse(_message.Message):
    __slots__ = ["areas", "rig"]
    AREAS_FIELD_NUMBER: _ClassVar[int]
    RIG_FIELD_NUMBER: _ClassVar[int]
    areas: _containers.RepeatedCompositeFieldContainer[_record_pb2.Restored]
    rig: Rig
    def __init__(self, rig: _Optional[_Union[Rig, _Mapping]] = ..., areas: _Optional[_Iterable[_Union[_record_pb2.Restored, _Mapping]]] = ...) -> None: ...

class Rig(_message.Message):
    __slots__ = ["current_run", "device", "holder", "holder_name", "host", "kind", "labels", "lease", "name", "pending_restore", "queue", "state", "state_reason"]
    CURRENT_RUN_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    HOLDER_NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PENDING_RESTORE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_REASON_FIELD_NUMBER: _ClassVar[int]
    current_run: str
    device: str
    holder: str
    holder_name: str
    host: str
    kind: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    lease: str
    name: str
    pending_restore: _containers.RepeatedScalarFieldContainer[str]
    queue: _containers.RepeatedScalarFieldContainer[str]
    state: RigState
    state_reason: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., device: _Optional[str] = ..., state: _Optional[_Union[RigState, str]] = ..., state_reason: _Optional[str] = ..., current_run: _Optional[str] = ..., queue: _Optional[_Iterable[str]] = ..., pending_restore: _Optional[_Iterable[str]] = ..., lease: _Optional[str] = ..., holder: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., host: _Optional[str] = ..., holder_name: _Optional[str] = ...) -> None: ...

class WatchRigsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class WatchRigsResponse(_message.Message):
    __slots__ = ["rigs"]
    RIGS_FIELD_NUMBER: _ClassVar[int]
    rigs: _containers.RepeatedCompositeFieldContainer[Rig]
    def __init__(self, rigs: _Optional[_Iterable[_Union[Rig, _Mapping]]] = ...) -> None: ...

class RigState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
