from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
LEASE_STATE_ACTIVE: LeaseState
LEASE_STATE_ENDED: LeaseState
LEASE_STATE_PENDING: LeaseState
LEASE_STATE_UNSPECIFIED: LeaseState
PRIORITY_HIGH: Priority
PRIORITY_LOW: Priority
PRIORITY_NORMAL: Priority
PRIORITY_UNSPECIFIED: Priority

class CreateLeaseRequest(_message.Message):
    __slots__ = ["attended", "labels", "lasts_s", "priority", "request_id", "rig"]
    ATTENDED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LASTS_S_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RIG_FIELD_NUMBER: _ClassVar[int]
    attended: bool
    labels: _containers.RepeatedScalarFieldContainer[str]
    lasts_s: int
    priority: Priority
    request_id: str
    rig: str
    def __init__(self, request_id: _Optional[str] = ..., rig: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., lasts_s: _Optional[int] = ..., priority: _Optional[_Union[Priority, str]] = ..., attended: bool = ...) -> None: ...

class CreateLeaseResponse(_message.Message):
    __slots__ = ["lease"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class EndLeaseRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class EndLeaseResponse(_message.Message):
    __slots__ = ["lease"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class GetLeaseRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetLeaseResponse(_message.Message):
    __slots__ = ["lease"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ["candidates", "create_time", "end_time", "expire_time", "lasts_s", "name", "owner", "owner_name", "priority", "reason", "rig", "run", "start_time", "state", "token", "waiting"]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LASTS_S_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OWNER_NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RIG_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    candidates: _containers.RepeatedScalarFieldContainer[str]
    create_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    lasts_s: int
    name: str
    owner: str
    owner_name: str
    priority: Priority
    reason: str
    rig: str
    run: str
    start_time: _timestamp_pb2.Timestamp
    state: LeaseState
    token: int
    waiting: Waiting
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., state: _Optional[_Union[LeaseState, str]] = ..., priority: _Optional[_Union[Priority, str]] = ..., candidates: _Optional[_Iterable[str]] = ..., rig: _Optional[str] = ..., token: _Optional[int] = ..., lasts_s: _Optional[int] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., run: _Optional[str] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ..., owner_name: _Optional[str] = ...) -> None: ...

class ListLeasesRequest(_message.Message):
    __slots__ = ["ended", "mine", "page_size"]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    ended: bool
    mine: bool
    page_size: int
    def __init__(self, ended: bool = ..., page_size: _Optional[int] = ..., mine: bool = ...) -> None: ...

class ListLeasesResponse(_message.Message):
    __slots__ = ["leases"]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ...) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ["lasts_s", "name"]
    LASTS_S_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    lasts_s: int
    name: str
    def __init__(self, name: _Optional[str] = ..., lasts_s: _Optional[int] = ...) -> None: ...

class RenewLeaseResponse(_message.Message):
    __slots__ = ["lease"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ["about_to_begin", "because", "latest", "place"]
    ABOUT_TO_BEGIN_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    about_to_begin: bool
    because: _containers.RepeatedScalarFieldContainer[str]
    latest: _timestamp_pb2.Timestamp
    place: int
    def __init__(self, place: _Optional[int] = ..., because: _Optional[_Iterable[str]] = ..., about_to_begin: bool = ..., latest: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WatchLeaseRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WatchLeaseResponse(_message.Message):
    __slots__ = ["lease"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class LeaseState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
