from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
OPERATION_COMPARE_SWAP: Operation
OPERATION_FETCH_ADD: Operation
OPERATION_READ: Operation
OPERATION_SEND: Operation
OPERATION_SEND_IMM: Operation
OPERATION_SEND_INVALIDATE: Operation
OPERATION_UNSPECIFIED: Operation
OPERATION_WRITE: Operation
OPERATION_WRITE_IMM: Operation
QP_STATE_ERR: QpState
QP_STATE_INIT: QpState
QP_STATE_RESET: QpState
QP_STATE_RTR: QpState
QP_STATE_RTS: QpState
QP_STATE_SQD: QpState
QP_STATE_SQE: QpState
QP_STATE_UNSPECIFIED: QpState
SERVICE_RC: Service
SERVICE_UD: Service
SERVICE_UNSPECIFIED: Service

class Access(_message.Message):
    __slots__ = ["local_write", "remote_atomic", "remote_read", "remote_write"]
    LOCAL_WRITE_FIELD_NUMBER: _ClassVar[int]
    REMOTE_ATOMIC_FIELD_NUMBER: _ClassVar[int]
    REMOTE_READ_FIELD_NUMBER: _ClassVar[int]
    REMOTE_WRITE_FIELD_NUMBER: _ClassVar[int]
    local_write: bool
    remote_atomic: bool
    remote_read: bool
    remote_write: bool
    def __init__(self, local_write: bool = ..., remote_write: bool = ..., remote_read: bool = ..., remote_atomic: bool = ...) -> None: ...

class AddressVector(_message.Message):
    __slots__ = ["dgid", "dlid", "flow_label", "hop_limit", "sgid_index", "sl", "traffic_class"]
    DGID_FIELD_NUMBER: _ClassVar[int]
    DLID_FIELD_NUMBER: _ClassVar[int]
    FLOW_LABEL_FIELD_NUMBER: _ClassVar[int]
    HOP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SGID_INDEX_FIELD_NUMBER: _ClassVar[int]
    SL_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_CLASS_FIELD_NUMBER: _ClassVar[int]
    dgid: bytes
    dlid: int
    flow_label: int
    hop_limit: int
    sgid_index: int
    sl: int
    traffic_class: int
    def __init__(self, dgid: _Optional[bytes] = ..., sgid_index: _Optional[int] = ..., hop_limit: _Optional[int] = ..., traffic_class: _Optional[int] = ..., flow_label: _Optional[int] = ..., dlid: _Optional[int] = ..., sl: _Optional[int] = ...) -> None: ...

class AsyncEvent(_message.Message):
    __slots__ = ["name", "qp"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QP_FIELD_NUMBER: _ClassVar[int]
    name: str
    qp: int
    def __init__(self, name: _Optional[str] = ..., qp: _Optional[int] = ...) -> None: ...

class Bytes(_message.Message):
    __slots__ = ["bytes"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: bytes
    def __init__(self, bytes: _Optional[bytes] = ...) -> None: ...

class Capabilities(_message.Message):
    __slots__ = ["answers", "max_memory", "max_message", "max_receive_depth", "max_send_depth", "min_rnr_timers", "operations", "path_mtus", "qp_states", "rnr_retries", "services", "timeouts"]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    MAX_MEMORY_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_RECEIVE_DEPTH_FIELD_NUMBER: _ClassVar[int]
    MAX_SEND_DEPTH_FIELD_NUMBER: _ClassVar[int]
    MIN_RNR_TIMERS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    PATH_MTUS_FIELD_NUMBER: _ClassVar[int]
    QP_STATES_FIELD_NUMBER: _ClassVar[int]
    RNR_RETRIES_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedScalarFieldContainer[Operation]
    max_memory: int
    max_message: int
    max_receive_depth: int
    max_send_depth: int
    min_rnr_timers: _containers.RepeatedScalarFieldContainer[int]
    operations: _containers.RepeatedScalarFieldContainer[Operation]
    path_mtus: _containers.RepeatedScalarFieldContainer[int]
    qp_states: _containers.RepeatedScalarFieldContainer[QpState]
    rnr_retries: _containers.RepeatedScalarFieldContainer[int]
    services: _containers.RepeatedScalarFieldContainer[Service]
    timeouts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, operations: _Optional[_Iterable[_Union[Operation, str]]] = ..., answers: _Optional[_Iterable[_Union[Operation, str]]] = ..., services: _Optional[_Iterable[_Union[Service, str]]] = ..., path_mtus: _Optional[_Iterable[int]] = ..., qp_states: _Optional[_Iterable[_Union[QpState, str]]] = ..., timeouts: _Optional[_Iterable[int]] = ..., min_rnr_timers: _Optional[_Iterable[int]] = ..., rnr_retries: _Optional[_Iterable[int]] = ..., max_message: _Optional[int] = ..., max_memory: _Optional[int] = ..., max_send_depth: _Optional[int] = ..., max_receive_depth: _Optional[int] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ["create_qp", "deregister_memory", "destroy_all", "destroy_qp", "modify_qp", "open", "post_receive", "post_send", "query_qp", "read_memory", "register_memory", "write_memory"]
    CREATE_QP_FIELD_NUMBER: _ClassVar[int]
    DEREGISTER_MEMORY_FIELD_NUMBER: _ClassVar[int]
    DESTROY_ALL_FIELD_NUMBER: _ClassVar[int]
    DESTROY_QP_FIELD_NUMBER: _ClassVar[int]
    MODIFY_QP_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    POST_RECEIVE_FIELD_NUMBER: _ClassVar[int]
    POST_SEND_FIELD_NUMBER: _ClassVar[int]
    QUERY_QP_FIELD_NUMBER: _ClassVar[int]
    READ_MEMORY_FIELD_NUMBER: _ClassVar[int]
    REGISTER_MEMORY_FIELD_NUMBER: _ClassVar[int]
    WRITE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    create_qp: CreateQp
    deregister_memory: DeregisterMemory
    destroy_all: DestroyAll
    destroy_qp: DestroyQp
    modify_qp: ModifyQp
    open: Open
    post_receive: PostReceive
    post_send: PostSend
    query_qp: QueryQp
    read_memory: ReadMemory
    register_memory: RegisterMemory
    write_memory: WriteMemory
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., register_memory: _Optional[_Union[RegisterMemory, _Mapping]] = ..., create_qp: _Optional[_Union[CreateQp, _Mapping]] = ..., modify_qp: _Optional[_Union[ModifyQp, _Mapping]] = ..., query_qp: _Optional[_Union[QueryQp, _Mapping]] = ..., post_send: _Optional[_Union[PostSend, _Mapping]] = ..., post_receive: _Optional[_Union[PostReceive, _Mapping]] = ..., read_memory: _Optional[_Union[ReadMemory, _Mapping]] = ..., write_memory: _Optional[_Union[WriteMemory, _Mapping]] = ..., destroy_qp: _Optional[_Union[DestroyQp, _Mapping]] = ..., deregister_memory: _Optional[_Union[DeregisterMemory, _Mapping]] = ..., destroy_all: _Optional[_Union[DestroyAll, _Mapping]] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ["byte_len", "imm", "opcode", "qp", "status", "vendor_error", "wr_id"]
    BYTE_LEN_FIELD_NUMBER: _ClassVar[int]
    IMM_FIELD_NUMBER: _ClassVar[int]
    OPCODE_FIELD_NUMBER: _ClassVar[int]
    QP_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VENDOR_ERROR_FIELD_NUMBER: _ClassVar[int]
    WR_ID_FIELD_NUMBER: _ClassVar[int]
    byte_len: int
    imm: int
    opcode: int
    qp: int
    status: int
    vendor_error: int
    wr_id: int
    def __init__(self, qp: _Optional[int] = ..., wr_id: _Optional[int] = ..., status: _Optional[int] = ..., opcode: _Optional[int] = ..., byte_len: _Optional[int] = ..., imm: _Optional[int] = ..., vendor_error: _Optional[int] = ...) -> None: ...

class CreateQp(_message.Message):
    __slots__ = ["receive_depth", "send_depth", "service"]
    RECEIVE_DEPTH_FIELD_NUMBER: _ClassVar[int]
    SEND_DEPTH_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    receive_depth: int
    send_depth: int
    service: Service
    def __init__(self, service: _Optional[_Union[Service, str]] = ..., send_depth: _Optional[int] = ..., receive_depth: _Optional[int] = ...) -> None: ...

class DeregisterMemory(_message.Message):
    __slots__ = ["memory"]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: int
    def __init__(self, memory: _Optional[int] = ...) -> None: ...

class DestroyAll(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class DestroyQp(_message.Message):
    __slots__ = ["qp"]
    QP_FIELD_NUMBER: _ClassVar[int]
    qp: int
    def __init__(self, qp: _Optional[int] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Event(_message.Message):
    __slots__ = ["async_event", "completion"]
    ASYNC_EVENT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    async_event: AsyncEvent
    completion: Completion
    def __init__(self, completion: _Optional[_Union[Completion, _Mapping]] = ..., async_event: _Optional[_Union[AsyncEvent, _Mapping]] = ...) -> None: ...

class Gid(_message.Message):
    __slots__ = ["gid", "index", "kind"]
    GID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    gid: bytes
    index: int
    kind: str
    def __init__(self, index: _Optional[int] = ..., gid: _Optional[bytes] = ..., kind: _Optional[str] = ...) -> None: ...

class Instant(_message.Message):
    __slots__ = ["earliest_ns", "latest_ns"]
    EARLIEST_NS_FIELD_NUMBER: _ClassVar[int]
    LATEST_NS_FIELD_NUMBER: _ClassVar[int]
    earliest_ns: int
    latest_ns: int
    def __init__(self, earliest_ns: _Optional[int] = ..., latest_ns: _Optional[int] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ["address", "l_key", "memory", "r_key"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    L_KEY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    R_KEY_FIELD_NUMBER: _ClassVar[int]
    address: int
    l_key: int
    memory: int
    r_key: int
    def __init__(self, memory: _Optional[int] = ..., address: _Optional[int] = ..., l_key: _Optional[int] = ..., r_key: _Optional[int] = ...) -> None: ...

class ModifyQp(_message.Message):
    __slots__ = ["attributes", "qp", "state"]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    QP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    attributes: QpAttributes
    qp: int
    state: QpState
    def __init__(self, qp: _Optional[int] = ..., state: _Optional[_Union[QpState, str]] = ..., attributes: _Optional[_Union[QpAttributes, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Opened(_message.Message):
    __slots__ = ["active_mtu", "atomics", "capabilities", "device", "driver", "ethernet", "firmware", "gids", "host", "hw_ver", "lid", "local_ca_ack_delay", "max_qp", "max_qp_init_rd_atom", "max_qp_rd_atom", "node_guid", "port", "port_state", "vendor_id", "vendor_part_id"]
    ACTIVE_MTU_FIELD_NUMBER: _ClassVar[int]
    ATOMICS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    ETHERNET_FIELD_NUMBER: _ClassVar[int]
    FIRMWARE_FIELD_NUMBER: _ClassVar[int]
    GIDS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    HW_VER_FIELD_NUMBER: _ClassVar[int]
    LID_FIELD_NUMBER: _ClassVar[int]
    LOCAL_CA_ACK_DELAY_FIELD_NUMBER: _ClassVar[int]
    MAX_QP_FIELD_NUMBER: _ClassVar[int]
    MAX_QP_INIT_RD_ATOM_FIELD_NUMBER: _ClassVar[int]
    MAX_QP_RD_ATOM_FIELD_NUMBER: _ClassVar[int]
    NODE_GUID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PORT_STATE_FIELD_NUMBER: _ClassVar[int]
    VENDOR_ID_FIELD_NUMBER: _ClassVar[int]
    VENDOR_PART_ID_FIELD_NUMBER: _ClassVar[int]
    active_mtu: int
    atomics: bool
    capabilities: Capabilities
    device: str
    driver: str
    ethernet: bool
    firmware: str
    gids: _containers.RepeatedCompositeFieldContainer[Gid]
    host: str
    hw_ver: int
    lid: int
    local_ca_ack_delay: int
    max_qp: int
    max_qp_init_rd_atom: int
    max_qp_rd_atom: int
    node_guid: int
    port: int
    port_state: int
    vendor_id: int
    vendor_part_id: int
    def __init__(self, device: _Optional[str] = ..., port: _Optional[int] = ..., firmware: _Optional[str] = ..., node_guid: _Optional[int] = ..., vendor_id: _Optional[int] = ..., vendor_part_id: _Optional[int] = ..., hw_ver: _Optional[int] = ..., port_state: _Optional[int] = ..., active_mtu: _Optional[int] = ..., lid: _Optional[int] = ..., ethernet: bool = ..., gids: _Optional[_Iterable[_Union[Gid, _Mapping]]] = ..., max_qp_rd_atom: _Optional[int] = ..., max_qp_init_rd_atom: _Optional[int] = ..., atomics: bool = ..., max_qp: _Optional[int] = ..., host: _Optional[str] = ..., driver: _Optional[str] = ..., capabilities: _Optional[_Union[Capabilities, _Mapping]] = ..., local_ca_ack_delay: _Optional[int] = ...) -> None: ...

class PostReceive(_message.Message):
    __slots__ = ["local", "qp", "wr_id"]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    QP_FIELD_NUMBER: _ClassVar[int]
    WR_ID_FIELD_NUMBER: _ClassVar[int]
    local: Slice
    qp: int
    wr_id: int
    def __init__(self, qp: _Optional[int] = ..., wr_id: _Optional[int] = ..., local: _Optional[_Union[Slice, _Mapping]] = ...) -> None: ...

class PostSend(_message.Message):
    __slots__ = ["address", "compare", "fence", "imm", "local", "operation", "qp", "r_key", "remote_address", "remote_qkey", "remote_qpn", "signaled", "solicited", "swap_add", "wr_id"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    COMPARE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    IMM_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    QP_FIELD_NUMBER: _ClassVar[int]
    REMOTE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REMOTE_QKEY_FIELD_NUMBER: _ClassVar[int]
    REMOTE_QPN_FIELD_NUMBER: _ClassVar[int]
    R_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNALED_FIELD_NUMBER: _ClassVar[int]
    SOLICITED_FIELD_NUMBER: _ClassVar[int]
    SWAP_ADD_FIELD_NUMBER: _ClassVar[int]
    WR_ID_FIELD_NUMBER: _ClassVar[int]
    address: AddressVector
    compare: int
    fence: bool
    imm: int
    local: Slice
    operation: Operation
    qp: int
    r_key: int
    remote_address: int
    remote_qkey: int
    remote_qpn: int
    signaled: bool
    solicited: bool
    swap_add: int
    wr_id: int
    def __init__(self, qp: _Optional[int] = ..., wr_id: _Optional[int] = ..., operation: _Optional[_Union[Operation, str]] = ..., local: _Optional[_Union[Slice, _Mapping]] = ..., signaled: bool = ..., solicited: bool = ..., fence: bool = ..., remote_address: _Optional[int] = ..., r_key: _Optional[int] = ..., compare: _Optional[int] = ..., swap_add: _Optional[int] = ..., imm: _Optional[int] = ..., address: _Optional[_Union[AddressVector, _Mapping]] = ..., remote_qpn: _Optional[int] = ..., remote_qkey: _Optional[int] = ...) -> None: ...

class Qp(_message.Message):
    __slots__ = ["qp", "qpn"]
    QPN_FIELD_NUMBER: _ClassVar[int]
    QP_FIELD_NUMBER: _ClassVar[int]
    qp: int
    qpn: int
    def __init__(self, qp: _Optional[int] = ..., qpn: _Optional[int] = ...) -> None: ...

class QpAttributes(_message.Message):
    __slots__ = ["access", "address", "dest_qpn", "max_dest_rd_atomic", "max_rd_atomic", "min_rnr_timer", "path_mtu", "pkey_index", "port", "qkey", "retry_cnt", "rnr_retry", "rq_psn", "sq_psn", "timeout"]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DEST_QPN_FIELD_NUMBER: _ClassVar[int]
    MAX_DEST_RD_ATOMIC_FIELD_NUMBER: _ClassVar[int]
    MAX_RD_ATOMIC_FIELD_NUMBER: _ClassVar[int]
    MIN_RNR_TIMER_FIELD_NUMBER: _ClassVar[int]
    PATH_MTU_FIELD_NUMBER: _ClassVar[int]
    PKEY_INDEX_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    QKEY_FIELD_NUMBER: _ClassVar[int]
    RETRY_CNT_FIELD_NUMBER: _ClassVar[int]
    RNR_RETRY_FIELD_NUMBER: _ClassVar[int]
    RQ_PSN_FIELD_NUMBER: _ClassVar[int]
    SQ_PSN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    access: Access
    address: AddressVector
    dest_qpn: int
    max_dest_rd_atomic: int
    max_rd_atomic: int
    min_rnr_timer: int
    path_mtu: int
    pkey_index: int
    port: int
    qkey: int
    retry_cnt: int
    rnr_retry: int
    rq_psn: int
    sq_psn: int
    timeout: int
    def __init__(self, pkey_index: _Optional[int] = ..., port: _Optional[int] = ..., access: _Optional[_Union[Access, _Mapping]] = ..., path_mtu: _Optional[int] = ..., dest_qpn: _Optional[int] = ..., rq_psn: _Optional[int] = ..., sq_psn: _Optional[int] = ..., max_dest_rd_atomic: _Optional[int] = ..., max_rd_atomic: _Optional[int] = ..., min_rnr_timer: _Optional[int] = ..., timeout: _Optional[int] = ..., retry_cnt: _Optional[int] = ..., rnr_retry: _Optional[int] = ..., qkey: _Optional[int] = ..., address: _Optional[_Union[AddressVector, _Mapping]] = ...) -> None: ...

class QpStatus(_message.Message):
    __slots__ = ["rq_psn", "sq_psn", "state"]
    RQ_PSN_FIELD_NUMBER: _ClassVar[int]
    SQ_PSN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    rq_psn: int
    sq_psn: int
    state: QpState
    def __init__(self, state: _Optional[_Union[QpState, str]] = ..., sq_psn: _Optional[int] = ..., rq_psn: _Optional[int] = ...) -> None: ...

class QueryQp(_message.Message):
    __slots__ = ["qp"]
    QP_FIELD_NUMBER: _ClassVar[int]
    qp: int
    def __init__(self, qp: _Optional[int] = ...) -> None: ...

class ReadMemory(_message.Message):
    __slots__ = []
    FROM_FIELD_NUMBER: _ClassVar[int]
    def __init__(self, **kwargs) -> None: ...

class Refused(_message.Message):
    __slots__ = ["errno", "text"]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    errno: int
    text: str
    def __init__(self, errno: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class RegisterMemory(_message.Message):
    __slots__ = ["access", "length"]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    access: Access
    length: int
    def __init__(self, length: _Optional[int] = ..., access: _Optional[_Union[Access, _Mapping]] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ["bytes", "done", "memory", "opened", "qp", "refused", "status"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    QP_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    bytes: Bytes
    done: Done
    memory: Memory
    opened: Opened
    qp: Qp
    refused: Refused
    status: QpStatus
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., qp: _Optional[_Union[Qp, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., status: _Optional[_Union[QpStatus, _Mapping]] = ..., bytes: _Optional[_Union[Bytes, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ["length", "memory", "offset"]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    length: int
    memory: int
    offset: int
    def __init__(self, memory: _Optional[int] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class WriteMemory(_message.Message):
    __slots__ = ["bytes", "memory", "offset"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    bytes: bytes
    memory: int
    offset: int
    def __init__(self, memory: _Optional[int] = ..., offset: _Optional[int] = ..., bytes: _Optional[bytes] = ...) -> None: ...

class Service(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class QpState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Operation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
