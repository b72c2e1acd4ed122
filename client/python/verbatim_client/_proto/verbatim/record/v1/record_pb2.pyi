from verbatim_client._proto.verbatim.agent.v1 import verbs_pb2 as _verbs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DELIMITER_EBP: Delimiter
DELIMITER_EGP: Delimiter
DELIMITER_OTHER: Delimiter
DELIMITER_UNSPECIFIED: Delimiter
DESCRIPTOR: _descriptor.FileDescriptor
MATCH_AGAIN: Match
MATCH_ANSWER: Match
MATCH_LATE: Match
MATCH_STRAY: Match
MATCH_TRAP: Match
MATCH_UNSPECIFIED: Match
MATCH_WRONG: Match
ROLE_RUNNER: Role
ROLE_TEST: Role
ROLE_UNSPECIFIED: Role
SIDE_DUT: Side
SIDE_TESTER: Side
SIDE_UNSPECIFIED: Side
STOP_REASON_CANCELLED: StopReason
STOP_REASON_DISTURBED: StopReason
STOP_REASON_LEASE_ENDED: StopReason
STOP_REASON_NOT_OFFERED: StopReason
STOP_REASON_NOT_SANE: StopReason
STOP_REASON_NOT_WANTED: StopReason
STOP_REASON_NO_ANSWER: StopReason
STOP_REASON_PANICKED: StopReason
STOP_REASON_REFUSED: StopReason
STOP_REASON_RIG_GONE: StopReason
STOP_REASON_SKIPPED: StopReason
STOP_REASON_STALLED: StopReason
STOP_REASON_TESTER: StopReason
STOP_REASON_UNSPECIFIED: StopReason
TIME_SOURCE_HARDWARE: TimeSource
TIME_SOURCE_KERNEL: TimeSource
TIME_SOURCE_OWN_CLOCK: TimeSource
TIME_SOURCE_UNSPECIFIED: TimeSource

class Arrived(_message.Message):
    __slots__ = ["at", "exchange", "mad", "match", "port"]
    AT_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    MAD_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    at: Span
    exchange: int
    mad: bytes
    match: Match
    port: int
    def __init__(self, exchange: _Optional[int] = ..., match: _Optional[_Union[Match, str]] = ..., port: _Optional[int] = ..., at: _Optional[_Union[Span, _Mapping]] = ..., mad: _Optional[bytes] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ["catalogue", "host_bound_ns", "parameters", "revision", "rig_key", "rig_kind", "seed", "shared_subnet", "simulated", "subnet_timeout", "test", "time_scale", "time_scale_least"]
    CATALOGUE_FIELD_NUMBER: _ClassVar[int]
    HOST_BOUND_NS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RIG_KEY_FIELD_NUMBER: _ClassVar[int]
    RIG_KIND_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SHARED_SUBNET_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    SUBNET_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    TIME_SCALE_FIELD_NUMBER: _ClassVar[int]
    TIME_SCALE_LEAST_FIELD_NUMBER: _ClassVar[int]
    catalogue: str
    host_bound_ns: int
    parameters: _containers.RepeatedCompositeFieldContainer[Parameter]
    revision: int
    rig_key: int
    rig_kind: str
    seed: int
    shared_subnet: bool
    simulated: bool
    subnet_timeout: int
    test: str
    time_scale: int
    time_scale_least: int
    def __init__(self, test: _Optional[str] = ..., revision: _Optional[int] = ..., seed: _Optional[int] = ..., parameters: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., rig_kind: _Optional[str] = ..., rig_key: _Optional[int] = ..., host_bound_ns: _Optional[int] = ..., simulated: bool = ..., shared_subnet: bool = ..., catalogue: _Optional[str] = ..., subnet_timeout: _Optional[int] = ..., time_scale: _Optional[int] = ..., time_scale_least: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ["at", "entries"]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    at: Span
    entries: int
    def __init__(self, entries: _Optional[int] = ..., at: _Optional[_Union[Span, _Mapping]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ["arrived", "begin", "end", "frame", "journal", "kernel_report", "label", "note", "reset", "restored", "returned", "round_trips", "sent", "silence", "stopped", "verbs_answered", "verbs_asked", "verbs_told", "waited"]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    KERNEL_REPORT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIPS_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    VERBS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    VERBS_ASKED_FIELD_NUMBER: _ClassVar[int]
    VERBS_TOLD_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    arrived: Arrived
    begin: Begin
    end: End
    frame: Frame
    journal: JournalChange
    kernel_report: KernelReport
    label: LabelDefinition
    note: Note
    reset: Reset
    restored: Restored
    returned: Returned
    round_trips: RoundTrips
    sent: Sent
    silence: Silence
    stopped: Stopped
    verbs_answered: VerbsAnswered
    verbs_asked: VerbsAsked
    verbs_told: VerbsTold
    waited: Waited
    def __init__(self, begin: _Optional[_Union[Begin, _Mapping]] = ..., label: _Optional[_Union[LabelDefinition, _Mapping]] = ..., sent: _Optional[_Union[Sent, _Mapping]] = ..., arrived: _Optional[_Union[Arrived, _Mapping]] = ..., silence: _Optional[_Union[Silence, _Mapping]] = ..., returned: _Optional[_Union[Returned, _Mapping]] = ..., note: _Optional[_Union[Note, _Mapping]] = ..., journal: _Optional[_Union[JournalChange, _Mapping]] = ..., stopped: _Optional[_Union[Stopped, _Mapping]] = ..., restored: _Optional[_Union[Restored, _Mapping]] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ..., verbs_asked: _Optional[_Union[VerbsAsked, _Mapping]] = ..., verbs_answered: _Optional[_Union[VerbsAnswered, _Mapping]] = ..., verbs_told: _Optional[_Union[VerbsTold, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., waited: _Optional[_Union[Waited, _Mapping]] = ..., round_trips: _Optional[_Union[RoundTrips, _Mapping]] = ..., reset: _Optional[_Union[Reset, _Mapping]] = ..., kernel_report: _Optional[_Union[KernelReport, _Mapping]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ["at", "bytes", "delimiter", "label", "number", "port", "received"]
    AT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    DELIMITER_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    at: Span
    bytes: bytes
    delimiter: Delimiter
    label: int
    number: int
    port: int
    received: bool
    def __init__(self, number: _Optional[int] = ..., label: _Optional[int] = ..., port: _Optional[int] = ..., received: bool = ..., at: _Optional[_Union[Span, _Mapping]] = ..., bytes: _Optional[bytes] = ..., delimiter: _Optional[_Union[Delimiter, str]] = ...) -> None: ...

class JournalChange(_message.Message):
    __slots__ = ["area", "change"]
    AREA_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    area: str
    change: str
    def __init__(self, area: _Optional[str] = ..., change: _Optional[str] = ...) -> None: ...

class KernelReport(_message.Message):
    __slots__ = ["side", "text"]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    side: Side
    text: str
    def __init__(self, side: _Optional[_Union[Side, str]] = ..., text: _Optional[str] = ...) -> None: ...

class LabelDefinition(_message.Message):
    __slots__ = ["name", "number", "role"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    role: Role
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ...) -> None: ...

class Note(_message.Message):
    __slots__ = ["at", "text"]
    AT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    at: Span
    text: str
    def __init__(self, at: _Optional[_Union[Span, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ["name", "value"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

class Reset(_message.Message):
    __slots__ = ["after", "command", "ended", "output", "silent", "succeeded", "took_ns"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    TOOK_NS_FIELD_NUMBER: _ClassVar[int]
    after: str
    command: _containers.RepeatedScalarFieldContainer[str]
    ended: str
    output: str
    silent: str
    succeeded: bool
    took_ns: int
    def __init__(self, silent: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., ended: _Optional[str] = ..., succeeded: bool = ..., took_ns: _Optional[int] = ..., output: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class Restored(_message.Message):
    __slots__ = ["area", "failure", "left", "not_restorable"]
    AREA_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    NOT_RESTORABLE_FIELD_NUMBER: _ClassVar[int]
    area: str
    failure: str
    left: _containers.RepeatedScalarFieldContainer[str]
    not_restorable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, area: _Optional[str] = ..., left: _Optional[_Iterable[str]] = ..., not_restorable: _Optional[_Iterable[str]] = ..., failure: _Optional[str] = ...) -> None: ...

class Returned(_message.Message):
    __slots__ = ["at", "errno", "exchange"]
    AT_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    at: Span
    errno: int
    exchange: int
    def __init__(self, exchange: _Optional[int] = ..., at: _Optional[_Union[Span, _Mapping]] = ..., errno: _Optional[int] = ...) -> None: ...

class RoundTrips(_message.Message):
    __slots__ = ["answered", "longest_ns", "lost", "of", "shortest_ns"]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    LONGEST_NS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    SHORTEST_NS_FIELD_NUMBER: _ClassVar[int]
    answered: int
    longest_ns: int
    lost: int
    of: str
    shortest_ns: int
    def __init__(self, answered: _Optional[int] = ..., lost: _Optional[int] = ..., shortest_ns: _Optional[int] = ..., longest_ns: _Optional[int] = ..., of: _Optional[str] = ...) -> None: ...

class Sent(_message.Message):
    __slots__ = ["at", "attempt", "dlid", "exchange", "label", "mad", "port"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DLID_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    MAD_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    at: Span
    attempt: int
    dlid: int
    exchange: int
    label: int
    mad: bytes
    port: int
    def __init__(self, exchange: _Optional[int] = ..., label: _Optional[int] = ..., attempt: _Optional[int] = ..., port: _Optional[int] = ..., at: _Optional[_Union[Span, _Mapping]] = ..., mad: _Optional[bytes] = ..., dlid: _Optional[int] = ...) -> None: ...

class Silence(_message.Message):
    __slots__ = ["at", "exchange", "resp_time_value", "subnet_timeout"]
    AT_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    RESP_TIME_VALUE_FIELD_NUMBER: _ClassVar[int]
    SUBNET_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    at: Span
    exchange: int
    resp_time_value: int
    subnet_timeout: int
    def __init__(self, exchange: _Optional[int] = ..., at: _Optional[_Union[Span, _Mapping]] = ..., resp_time_value: _Optional[int] = ..., subnet_timeout: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ["earliest_ns", "source", "width_ns"]
    EARLIEST_NS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_NS_FIELD_NUMBER: _ClassVar[int]
    earliest_ns: int
    source: TimeSource
    width_ns: int
    def __init__(self, earliest_ns: _Optional[int] = ..., width_ns: _Optional[int] = ..., source: _Optional[_Union[TimeSource, str]] = ...) -> None: ...

class Stopped(_message.Message):
    __slots__ = ["reason", "text"]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    reason: StopReason
    text: str
    def __init__(self, reason: _Optional[_Union[StopReason, str]] = ..., text: _Optional[str] = ...) -> None: ...

class VerbsAnswered(_message.Message):
    __slots__ = ["at", "host_at", "number", "reply"]
    AT_FIELD_NUMBER: _ClassVar[int]
    HOST_AT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    at: Span
    host_at: Span
    number: int
    reply: _verbs_pb2.Reply
    def __init__(self, number: _Optional[int] = ..., at: _Optional[_Union[Span, _Mapping]] = ..., host_at: _Optional[_Union[Span, _Mapping]] = ..., reply: _Optional[_Union[_verbs_pb2.Reply, _Mapping]] = ...) -> None: ...

class VerbsAsked(_message.Message):
    __slots__ = ["at", "command", "label", "number", "side"]
    AT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    at: Span
    command: _verbs_pb2.Command
    label: int
    number: int
    side: Side
    def __init__(self, number: _Optional[int] = ..., label: _Optional[int] = ..., side: _Optional[_Union[Side, str]] = ..., at: _Optional[_Union[Span, _Mapping]] = ..., command: _Optional[_Union[_verbs_pb2.Command, _Mapping]] = ...) -> None: ...

class VerbsTold(_message.Message):
    __slots__ = ["at", "event", "host_at", "side"]
    AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    HOST_AT_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    at: Span
    event: _verbs_pb2.Event
    host_at: Span
    side: Side
    def __init__(self, side: _Optional[_Union[Side, str]] = ..., at: _Optional[_Union[Span, _Mapping]] = ..., host_at: _Optional[_Union[Span, _Mapping]] = ..., event: _Optional[_Union[_verbs_pb2.Event, _Mapping]] = ...) -> None: ...

class Waited(_message.Message):
    __slots__ = ["label", "since_ns", "until_ns"]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    label: int
    since_ns: int
    until_ns: int
    def __init__(self, label: _Optional[int] = ..., since_ns: _Optional[int] = ..., until_ns: _Optional[int] = ...) -> None: ...

class TimeSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Match(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Delimiter(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Side(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
