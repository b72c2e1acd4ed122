from verbatim_client._proto.verbatim.agent.v1 import verbs_pb2 as _verbs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Answer(_message.Message):
    __slots__ = ["number", "reply"]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    number: int
    reply: _verbs_pb2.Reply
    def __init__(self, number: _Optional[int] = ..., reply: _Optional[_Union[_verbs_pb2.Reply, _Mapping]] = ...) -> None: ...

class GetAgentRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetAgentResponse(_message.Message):
    __slots__ = ["devices", "host", "max_sessions", "sessions", "version"]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    MAX_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedScalarFieldContainer[str]
    host: str
    max_sessions: int
    sessions: int
    version: str
    def __init__(self, version: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ..., sessions: _Optional[int] = ..., max_sessions: _Optional[int] = ..., host: _Optional[str] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ["command", "number"]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    command: _verbs_pb2.Command
    number: int
    def __init__(self, number: _Optional[int] = ..., command: _Optional[_Union[_verbs_pb2.Command, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ["answer", "at", "event"]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    answer: Answer
    at: _verbs_pb2.Instant
    event: _verbs_pb2.Event
    def __init__(self, at: _Optional[_Union[_verbs_pb2.Instant, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., event: _Optional[_Union[_verbs_pb2.Event, _Mapping]] = ...) -> None: ...
