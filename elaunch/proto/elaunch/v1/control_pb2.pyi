from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_PHASE_UNSPECIFIED: _ClassVar[RunPhase]
    RUN_PHASE_STARTING: _ClassVar[RunPhase]
    RUN_PHASE_RUNNING: _ClassVar[RunPhase]
    RUN_PHASE_STOPPING: _ClassVar[RunPhase]
    RUN_PHASE_STOPPED: _ClassVar[RunPhase]
    RUN_PHASE_SUCCEEDED: _ClassVar[RunPhase]
    RUN_PHASE_FAILED: _ClassVar[RunPhase]
RUN_PHASE_UNSPECIFIED: RunPhase
RUN_PHASE_STARTING: RunPhase
RUN_PHASE_RUNNING: RunPhase
RUN_PHASE_STOPPING: RunPhase
RUN_PHASE_STOPPED: RunPhase
RUN_PHASE_SUCCEEDED: RunPhase
RUN_PHASE_FAILED: RunPhase

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("leader_epoch", "phase", "generation", "restart_count", "max_restarts", "min_nodes", "max_nodes", "code", "reason", "waiting_for", "phase_seconds", "nodes", "ranks", "budget_left", "refused", "checkpoint", "ports", "world_size", "exits", "hang", "port_levels", "accounts", "usual_step_seconds", "lost_seconds", "lost_steps", "restored_step")
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    PHASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_LEFT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    EXITS_FIELD_NUMBER: _ClassVar[int]
    HANG_FIELD_NUMBER: _ClassVar[int]
    PORT_LEVELS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USUAL_STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOST_STEPS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_STEP_FIELD_NUMBER: _ClassVar[int]
    leader_epoch: int
    phase: str
    generation: int
    restart_count: int
    max_restarts: int
    min_nodes: int
    max_nodes: int
    code: str
    reason: str
    waiting_for: str
    phase_seconds: float
    nodes: _containers.RepeatedCompositeFieldContainer[NodeLine]
    ranks: _containers.RepeatedCompositeFieldContainer[RankLine]
    budget_left: int
    refused: _containers.ScalarMap[str, int]
    checkpoint: LastCheckpoint
    ports: _containers.RepeatedCompositeFieldContainer[PortLine]
    world_size: int
    exits: _containers.RepeatedCompositeFieldContainer[RankExit]
    hang: HangReport
    port_levels: _containers.RepeatedCompositeFieldContainer[PortLevel]
    accounts: Accounts
    usual_step_seconds: float
    lost_seconds: float
    lost_steps: int
    restored_step: int
    def __init__(self, leader_epoch: _Optional[int] = ..., phase: _Optional[str] = ..., generation: _Optional[int] = ..., restart_count: _Optional[int] = ..., max_restarts: _Optional[int] = ..., min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., code: _Optional[str] = ..., reason: _Optional[str] = ..., waiting_for: _Optional[str] = ..., phase_seconds: _Optional[float] = ..., nodes: _Optional[_Iterable[_Union[NodeLine, _Mapping]]] = ..., ranks: _Optional[_Iterable[_Union[RankLine, _Mapping]]] = ..., budget_left: _Optional[int] = ..., refused: _Optional[_Mapping[str, int]] = ..., checkpoint: _Optional[_Union[LastCheckpoint, _Mapping]] = ..., ports: _Optional[_Iterable[_Union[PortLine, _Mapping]]] = ..., world_size: _Optional[int] = ..., exits: _Optional[_Iterable[_Union[RankExit, _Mapping]]] = ..., hang: _Optional[_Union[HangReport, _Mapping]] = ..., port_levels: _Optional[_Iterable[_Union[PortLevel, _Mapping]]] = ..., accounts: _Optional[_Union[Accounts, _Mapping]] = ..., usual_step_seconds: _Optional[float] = ..., lost_seconds: _Optional[float] = ..., lost_steps: _Optional[int] = ..., restored_step: _Optional[int] = ...) -> None: ...

class Accounts(_message.Message):
    __slots__ = ("total_seconds", "seconds", "activity", "activity_seconds", "restarts")
    class SecondsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class RestartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOTAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    total_seconds: float
    seconds: _containers.ScalarMap[str, float]
    activity: str
    activity_seconds: float
    restarts: _containers.ScalarMap[str, int]
    def __init__(self, total_seconds: _Optional[float] = ..., seconds: _Optional[_Mapping[str, float]] = ..., activity: _Optional[str] = ..., activity_seconds: _Optional[float] = ..., restarts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class HangReport(_message.Message):
    __slots__ = ("generation", "time", "code", "text", "culprits", "waits", "evidence", "stacks")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CULPRITS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    time: float
    code: str
    text: str
    culprits: _containers.RepeatedCompositeFieldContainer[RankLine]
    waits: _containers.RepeatedCompositeFieldContainer[WaitLine]
    evidence: _containers.RepeatedScalarFieldContainer[str]
    stacks: _containers.RepeatedCompositeFieldContainer[StackGroup]
    def __init__(self, generation: _Optional[int] = ..., time: _Optional[float] = ..., code: _Optional[str] = ..., text: _Optional[str] = ..., culprits: _Optional[_Iterable[_Union[RankLine, _Mapping]]] = ..., waits: _Optional[_Iterable[_Union[WaitLine, _Mapping]]] = ..., evidence: _Optional[_Iterable[str]] = ..., stacks: _Optional[_Iterable[_Union[StackGroup, _Mapping]]] = ...) -> None: ...

class WaitLine(_message.Message):
    __slots__ = ("group", "what", "sequence", "since", "waiting", "absent")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    group: str
    what: str
    sequence: int
    since: float
    waiting: _containers.RepeatedScalarFieldContainer[int]
    absent: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[str] = ..., what: _Optional[str] = ..., sequence: _Optional[int] = ..., since: _Optional[float] = ..., waiting: _Optional[_Iterable[int]] = ..., absent: _Optional[_Iterable[int]] = ...) -> None: ...

class StackGroup(_message.Message):
    __slots__ = ("host", "ranks", "text")
    HOST_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    host: str
    ranks: _containers.RepeatedScalarFieldContainer[int]
    text: str
    def __init__(self, host: _Optional[str] = ..., ranks: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ...) -> None: ...

class PortLevel(_message.Message):
    __slots__ = ("host", "node_id", "port", "ranks", "state", "phys_state", "rate", "sent", "received", "rose")
    class RoseEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    HOST_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PHYS_STATE_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    ROSE_FIELD_NUMBER: _ClassVar[int]
    host: str
    node_id: str
    port: str
    ranks: _containers.RepeatedScalarFieldContainer[int]
    state: str
    phys_state: str
    rate: float
    sent: float
    received: float
    rose: _containers.ScalarMap[str, int]
    def __init__(self, host: _Optional[str] = ..., node_id: _Optional[str] = ..., port: _Optional[str] = ..., ranks: _Optional[_Iterable[int]] = ..., state: _Optional[str] = ..., phys_state: _Optional[str] = ..., rate: _Optional[float] = ..., sent: _Optional[float] = ..., received: _Optional[float] = ..., rose: _Optional[_Mapping[str, int]] = ...) -> None: ...

class LastCheckpoint(_message.Message):
    __slots__ = ("step", "generation", "age_seconds", "lost_seconds", "lost_steps")
    STEP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOST_STEPS_FIELD_NUMBER: _ClassVar[int]
    step: int
    generation: int
    age_seconds: float
    lost_seconds: float
    lost_steps: int
    def __init__(self, step: _Optional[int] = ..., generation: _Optional[int] = ..., age_seconds: _Optional[float] = ..., lost_seconds: _Optional[float] = ..., lost_steps: _Optional[int] = ...) -> None: ...

class PortLine(_message.Message):
    __slots__ = ("host", "node_id", "port", "ranks", "code", "text", "seconds", "left_out")
    HOST_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    host: str
    node_id: str
    port: str
    ranks: _containers.RepeatedScalarFieldContainer[int]
    code: str
    text: str
    seconds: float
    left_out: bool
    def __init__(self, host: _Optional[str] = ..., node_id: _Optional[str] = ..., port: _Optional[str] = ..., ranks: _Optional[_Iterable[int]] = ..., code: _Optional[str] = ..., text: _Optional[str] = ..., seconds: _Optional[float] = ..., left_out: bool = ...) -> None: ...

class RankLine(_message.Message):
    __slots__ = ("rank", "node_id", "pid", "step", "step_seconds", "beat_seconds", "state", "where", "section", "waits_in", "progress_seconds", "awaited_by", "start", "slower", "host")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SECTION_FIELD_NUMBER: _ClassVar[int]
    WAITS_IN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AWAITED_BY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SLOWER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    rank: int
    node_id: str
    pid: int
    step: int
    step_seconds: float
    beat_seconds: float
    state: str
    where: str
    section: str
    waits_in: str
    progress_seconds: float
    awaited_by: int
    start: StartRecord
    slower: float
    host: str
    def __init__(self, rank: _Optional[int] = ..., node_id: _Optional[str] = ..., pid: _Optional[int] = ..., step: _Optional[int] = ..., step_seconds: _Optional[float] = ..., beat_seconds: _Optional[float] = ..., state: _Optional[str] = ..., where: _Optional[str] = ..., section: _Optional[str] = ..., waits_in: _Optional[str] = ..., progress_seconds: _Optional[float] = ..., awaited_by: _Optional[int] = ..., start: _Optional[_Union[StartRecord, _Mapping]] = ..., slower: _Optional[float] = ..., host: _Optional[str] = ...) -> None: ...

class NodeLine(_message.Message):
    __slots__ = ("node_id", "host", "slots", "rank0", "phase", "generation", "attached", "heard_seconds", "note")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RANK0_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    HEARD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    host: str
    slots: int
    rank0: int
    phase: RunPhase
    generation: int
    attached: bool
    heard_seconds: float
    note: str
    def __init__(self, node_id: _Optional[str] = ..., host: _Optional[str] = ..., slots: _Optional[int] = ..., rank0: _Optional[int] = ..., phase: _Optional[_Union[RunPhase, str]] = ..., generation: _Optional[int] = ..., attached: bool = ..., heard_seconds: _Optional[float] = ..., note: _Optional[str] = ...) -> None: ...

class RankExit(_message.Message):
    __slots__ = ("local_rank", "rank", "pid", "exit_code", "time", "error_file", "message", "traceback")
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FILE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    local_rank: int
    rank: int
    pid: int
    exit_code: int
    time: float
    error_file: str
    message: str
    traceback: str
    def __init__(self, local_rank: _Optional[int] = ..., rank: _Optional[int] = ..., pid: _Optional[int] = ..., exit_code: _Optional[int] = ..., time: _Optional[float] = ..., error_file: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ...) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("node_id", "leader_epoch", "status", "heartbeat")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    leader_epoch: int
    status: NodeStatus
    heartbeat: Heartbeat
    def __init__(self, node_id: _Optional[str] = ..., leader_epoch: _Optional[int] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("generation", "phase", "exits", "store_port", "leaving", "leaving_reason", "leaving_exit_code", "stop_job", "start_error", "evidence", "answers", "commits", "lines", "start_code", "leaving_code", "start_exit_code", "interfaces", "probe", "starts", "stacks")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EXITS_FIELD_NUMBER: _ClassVar[int]
    STORE_PORT_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_REASON_FIELD_NUMBER: _ClassVar[int]
    LEAVING_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    STOP_JOB_FIELD_NUMBER: _ClassVar[int]
    START_ERROR_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    START_CODE_FIELD_NUMBER: _ClassVar[int]
    LEAVING_CODE_FIELD_NUMBER: _ClassVar[int]
    START_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    phase: RunPhase
    exits: _containers.RepeatedCompositeFieldContainer[RankExit]
    store_port: int
    leaving: bool
    leaving_reason: str
    leaving_exit_code: int
    stop_job: bool
    start_error: str
    evidence: str
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    commits: _containers.RepeatedCompositeFieldContainer[CheckpointCommit]
    lines: _containers.RepeatedCompositeFieldContainer[CheckpointLine]
    start_code: str
    leaving_code: str
    start_exit_code: int
    interfaces: _containers.RepeatedCompositeFieldContainer[Interface]
    probe: ProbeReport
    starts: _containers.RepeatedCompositeFieldContainer[StartRecord]
    stacks: _containers.RepeatedCompositeFieldContainer[StackGroup]
    def __init__(self, generation: _Optional[int] = ..., phase: _Optional[_Union[RunPhase, str]] = ..., exits: _Optional[_Iterable[_Union[RankExit, _Mapping]]] = ..., store_port: _Optional[int] = ..., leaving: bool = ..., leaving_reason: _Optional[str] = ..., leaving_exit_code: _Optional[int] = ..., stop_job: bool = ..., start_error: _Optional[str] = ..., evidence: _Optional[str] = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ..., commits: _Optional[_Iterable[_Union[CheckpointCommit, _Mapping]]] = ..., lines: _Optional[_Iterable[_Union[CheckpointLine, _Mapping]]] = ..., start_code: _Optional[str] = ..., leaving_code: _Optional[str] = ..., start_exit_code: _Optional[int] = ..., interfaces: _Optional[_Iterable[_Union[Interface, _Mapping]]] = ..., probe: _Optional[_Union[ProbeReport, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[StartRecord, _Mapping]]] = ..., stacks: _Optional[_Iterable[_Union[StackGroup, _Mapping]]] = ...) -> None: ...

class Interface(_message.Message):
    __slots__ = ("name", "addresses", "link_local", "mtu", "port", "rail")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    LINK_LOCAL_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    link_local: str
    mtu: int
    port: int
    rail: int
    def __init__(self, name: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., link_local: _Optional[str] = ..., mtu: _Optional[int] = ..., port: _Optional[int] = ..., rail: _Optional[int] = ...) -> None: ...

class ProbeReport(_message.Message):
    __slots__ = ("id", "rows", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    rows: _containers.RepeatedCompositeFieldContainer[ProbeRow]
    error: str
    def __init__(self, id: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[ProbeRow, _Mapping]]] = ..., error: _Optional[str] = ...) -> None: ...

class ProbeRow(_message.Message):
    __slots__ = ("own", "node_id", "interface", "reached", "arrived", "egress", "whole", "path_mtu", "search")
    OWN_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    PATH_MTU_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    own: str
    node_id: str
    interface: str
    reached: bool
    arrived: str
    egress: str
    whole: bool
    path_mtu: int
    search: bool
    def __init__(self, own: _Optional[str] = ..., node_id: _Optional[str] = ..., interface: _Optional[str] = ..., reached: bool = ..., arrived: _Optional[str] = ..., egress: _Optional[str] = ..., whole: bool = ..., path_mtu: _Optional[int] = ..., search: bool = ...) -> None: ...

class StartRecord(_message.Message):
    __slots__ = ("job", "host", "pid", "rank", "world_size", "generation", "restart_count", "local_rank", "local_world_size", "logical_device", "device_id", "backend", "endpoint", "transport", "timeout", "nics", "numa_node", "rail", "import_seconds", "rendezvous_seconds", "exchange_seconds", "communicator_seconds", "topology_digest", "driver", "runtime", "libraries", "phase", "asked_rank", "asked_world_size", "shared", "asymmetry", "error", "fault", "inits")
    JOB_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_DEVICE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODE_FIELD_NUMBER: _ClassVar[int]
    RAIL_FIELD_NUMBER: _ClassVar[int]
    IMPORT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RENDEZVOUS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATOR_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    LIBRARIES_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ASKED_RANK_FIELD_NUMBER: _ClassVar[int]
    ASKED_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    ASYMMETRY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    INITS_FIELD_NUMBER: _ClassVar[int]
    job: str
    host: str
    pid: int
    rank: int
    world_size: int
    generation: int
    restart_count: int
    local_rank: int
    local_world_size: int
    logical_device: str
    device_id: str
    backend: str
    endpoint: str
    transport: str
    timeout: float
    nics: str
    numa_node: str
    rail: str
    import_seconds: float
    rendezvous_seconds: float
    exchange_seconds: float
    communicator_seconds: float
    topology_digest: str
    driver: str
    runtime: str
    libraries: str
    phase: str
    asked_rank: int
    asked_world_size: int
    shared: bool
    asymmetry: bool
    error: str
    fault: str
    inits: int
    def __init__(self, job: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., generation: _Optional[int] = ..., restart_count: _Optional[int] = ..., local_rank: _Optional[int] = ..., local_world_size: _Optional[int] = ..., logical_device: _Optional[str] = ..., device_id: _Optional[str] = ..., backend: _Optional[str] = ..., endpoint: _Optional[str] = ..., transport: _Optional[str] = ..., timeout: _Optional[float] = ..., nics: _Optional[str] = ..., numa_node: _Optional[str] = ..., rail: _Optional[str] = ..., import_seconds: _Optional[float] = ..., rendezvous_seconds: _Optional[float] = ..., exchange_seconds: _Optional[float] = ..., communicator_seconds: _Optional[float] = ..., topology_digest: _Optional[str] = ..., driver: _Optional[str] = ..., runtime: _Optional[str] = ..., libraries: _Optional[str] = ..., phase: _Optional[str] = ..., asked_rank: _Optional[int] = ..., asked_world_size: _Optional[int] = ..., shared: bool = ..., asymmetry: bool = ..., error: _Optional[str] = ..., fault: _Optional[str] = ..., inits: _Optional[int] = ...) -> None: ...

class CheckpointCommit(_message.Message):
    __slots__ = ("generation", "rank", "number", "step", "path", "digest", "bytes", "seconds", "blocked")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    rank: int
    number: int
    step: int
    path: str
    digest: str
    bytes: int
    seconds: float
    blocked: float
    def __init__(self, generation: _Optional[int] = ..., rank: _Optional[int] = ..., number: _Optional[int] = ..., step: _Optional[int] = ..., path: _Optional[str] = ..., digest: _Optional[str] = ..., bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., blocked: _Optional[float] = ...) -> None: ...

class CheckpointLine(_message.Message):
    __slots__ = ("number", "generation", "rank", "kind", "text", "step")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    number: int
    generation: int
    rank: int
    kind: str
    text: str
    step: int
    def __init__(self, number: _Optional[int] = ..., generation: _Optional[int] = ..., rank: _Optional[int] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("id", "ok", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    ok: bool
    text: str
    def __init__(self, id: _Optional[str] = ..., ok: bool = ..., text: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("generation", "interval", "ranks", "ports", "all_ports")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    ALL_PORTS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    interval: float
    ranks: _containers.RepeatedCompositeFieldContainer[RankProgress]
    ports: _containers.RepeatedCompositeFieldContainer[PortReport]
    all_ports: bool
    def __init__(self, generation: _Optional[int] = ..., interval: _Optional[float] = ..., ranks: _Optional[_Iterable[_Union[RankProgress, _Mapping]]] = ..., ports: _Optional[_Iterable[_Union[PortReport, _Mapping]]] = ..., all_ports: bool = ...) -> None: ...

class PortReport(_message.Message):
    __slots__ = ("port", "local_ranks", "state", "phys_state", "rate", "sent", "received", "rose", "troubles")
    class RoseEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PORT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANKS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PHYS_STATE_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    ROSE_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    port: str
    local_ranks: _containers.RepeatedScalarFieldContainer[int]
    state: str
    phys_state: str
    rate: float
    sent: float
    received: float
    rose: _containers.ScalarMap[str, int]
    troubles: _containers.RepeatedCompositeFieldContainer[PortTrouble]
    def __init__(self, port: _Optional[str] = ..., local_ranks: _Optional[_Iterable[int]] = ..., state: _Optional[str] = ..., phys_state: _Optional[str] = ..., rate: _Optional[float] = ..., sent: _Optional[float] = ..., received: _Optional[float] = ..., rose: _Optional[_Mapping[str, int]] = ..., troubles: _Optional[_Iterable[_Union[PortTrouble, _Mapping]]] = ...) -> None: ...

class PortTrouble(_message.Message):
    __slots__ = ("code", "text")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    code: str
    text: str
    def __init__(self, code: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class RankProgress(_message.Message):
    __slots__ = ("rank", "local_rank", "pid", "state", "attached", "beat_age", "cpu_seconds", "step", "step_age", "section", "section_left", "where", "where_age", "progress_age", "own_seconds", "waited_seconds", "groups", "stopping")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    BEAT_AGE_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_AGE_FIELD_NUMBER: _ClassVar[int]
    SECTION_FIELD_NUMBER: _ClassVar[int]
    SECTION_LEFT_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    WHERE_AGE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_AGE_FIELD_NUMBER: _ClassVar[int]
    OWN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    pid: int
    state: str
    attached: bool
    beat_age: float
    cpu_seconds: float
    step: int
    step_age: float
    section: str
    section_left: float
    where: str
    where_age: float
    progress_age: float
    own_seconds: float
    waited_seconds: float
    groups: _containers.RepeatedCompositeFieldContainer[GroupProgress]
    stopping: bool
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., pid: _Optional[int] = ..., state: _Optional[str] = ..., attached: bool = ..., beat_age: _Optional[float] = ..., cpu_seconds: _Optional[float] = ..., step: _Optional[int] = ..., step_age: _Optional[float] = ..., section: _Optional[str] = ..., section_left: _Optional[float] = ..., where: _Optional[str] = ..., where_age: _Optional[float] = ..., progress_age: _Optional[float] = ..., own_seconds: _Optional[float] = ..., waited_seconds: _Optional[float] = ..., groups: _Optional[_Iterable[_Union[GroupProgress, _Mapping]]] = ..., stopping: bool = ...) -> None: ...

class GroupProgress(_message.Message):
    __slots__ = ("name", "size", "started", "finished", "collective", "ranks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    started: int
    finished: int
    collective: str
    ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., started: _Optional[int] = ..., finished: _Optional[int] = ..., collective: _Optional[str] = ..., ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("leader_epoch", "start", "abort", "end", "wait", "leave", "signal", "stacks", "receipts", "probe", "inject")
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    INJECT_FIELD_NUMBER: _ClassVar[int]
    leader_epoch: int
    start: Start
    abort: Abort
    end: End
    wait: Wait
    leave: Leave
    signal: Signal
    stacks: Stacks
    receipts: Receipts
    probe: Probe
    inject: Inject
    def __init__(self, leader_epoch: _Optional[int] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., wait: _Optional[_Union[Wait, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., signal: _Optional[_Union[Signal, _Mapping]] = ..., stacks: _Optional[_Union[Stacks, _Mapping]] = ..., receipts: _Optional[_Union[Receipts, _Mapping]] = ..., probe: _Optional[_Union[Probe, _Mapping]] = ..., inject: _Optional[_Union[Inject, _Mapping]] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("id", "secret", "seconds", "targets")
    ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    id: str
    secret: bytes
    seconds: float
    targets: _containers.RepeatedCompositeFieldContainer[ProbeTarget]
    def __init__(self, id: _Optional[str] = ..., secret: _Optional[bytes] = ..., seconds: _Optional[float] = ..., targets: _Optional[_Iterable[_Union[ProbeTarget, _Mapping]]] = ...) -> None: ...

class ProbeTarget(_message.Message):
    __slots__ = ("own", "node_id", "interface", "address", "port", "mtu", "round")
    OWN_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    own: str
    node_id: str
    interface: str
    address: str
    port: int
    mtu: int
    round: int
    def __init__(self, own: _Optional[str] = ..., node_id: _Optional[str] = ..., interface: _Optional[str] = ..., address: _Optional[str] = ..., port: _Optional[int] = ..., mtu: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class PortNote(_message.Message):
    __slots__ = ("interface", "text")
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    interface: str
    text: str
    def __init__(self, interface: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Receipts(_message.Message):
    __slots__ = ("heard", "replies")
    HEARD_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    heard: int
    replies: _containers.RepeatedCompositeFieldContainer[CommitReply]
    def __init__(self, heard: _Optional[int] = ..., replies: _Optional[_Iterable[_Union[CommitReply, _Mapping]]] = ...) -> None: ...

class CommitReply(_message.Message):
    __slots__ = ("generation", "rank", "number", "accepted", "text")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    generation: int
    rank: int
    number: int
    accepted: bool
    text: str
    def __init__(self, generation: _Optional[int] = ..., rank: _Optional[int] = ..., number: _Optional[int] = ..., accepted: bool = ..., text: _Optional[str] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("generation", "restart_count", "group_rank", "group_world_size", "rank0", "world_size", "role_rank0", "role_world_size", "store_address", "store_port", "host_store", "reason", "from_step", "avoid_steps", "recorded_step", "rewinds", "incarnation", "unreachable", "avoid_ports")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    GROUP_RANK_FIELD_NUMBER: _ClassVar[int]
    GROUP_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    RANK0_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    ROLE_RANK0_FIELD_NUMBER: _ClassVar[int]
    ROLE_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    STORE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STORE_PORT_FIELD_NUMBER: _ClassVar[int]
    HOST_STORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FROM_STEP_FIELD_NUMBER: _ClassVar[int]
    AVOID_STEPS_FIELD_NUMBER: _ClassVar[int]
    RECORDED_STEP_FIELD_NUMBER: _ClassVar[int]
    REWINDS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    AVOID_PORTS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    restart_count: int
    group_rank: int
    group_world_size: int
    rank0: int
    world_size: int
    role_rank0: int
    role_world_size: int
    store_address: str
    store_port: int
    host_store: bool
    reason: str
    from_step: int
    avoid_steps: _containers.RepeatedScalarFieldContainer[int]
    recorded_step: int
    rewinds: _containers.RepeatedCompositeFieldContainer[Rewind]
    incarnation: str
    unreachable: _containers.RepeatedCompositeFieldContainer[PortNote]
    avoid_ports: _containers.RepeatedCompositeFieldContainer[AvoidedPort]
    def __init__(self, generation: _Optional[int] = ..., restart_count: _Optional[int] = ..., group_rank: _Optional[int] = ..., group_world_size: _Optional[int] = ..., rank0: _Optional[int] = ..., world_size: _Optional[int] = ..., role_rank0: _Optional[int] = ..., role_world_size: _Optional[int] = ..., store_address: _Optional[str] = ..., store_port: _Optional[int] = ..., host_store: bool = ..., reason: _Optional[str] = ..., from_step: _Optional[int] = ..., avoid_steps: _Optional[_Iterable[int]] = ..., recorded_step: _Optional[int] = ..., rewinds: _Optional[_Iterable[_Union[Rewind, _Mapping]]] = ..., incarnation: _Optional[str] = ..., unreachable: _Optional[_Iterable[_Union[PortNote, _Mapping]]] = ..., avoid_ports: _Optional[_Iterable[_Union[AvoidedPort, _Mapping]]] = ...) -> None: ...

class AvoidedPort(_message.Message):
    __slots__ = ("port", "why")
    PORT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    port: str
    why: str
    def __init__(self, port: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class Rewind(_message.Message):
    __slots__ = ("generation", "step")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    generation: int
    step: int
    def __init__(self, generation: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("generation", "code", "reason", "evidence", "notice")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    generation: int
    code: str
    reason: str
    evidence: bool
    notice: bool
    def __init__(self, generation: _Optional[int] = ..., code: _Optional[str] = ..., reason: _Optional[str] = ..., evidence: bool = ..., notice: bool = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("outcome", "exit_code", "code", "reason", "failures", "failed_ranks")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    FAILED_RANKS_FIELD_NUMBER: _ClassVar[int]
    outcome: str
    exit_code: int
    code: str
    reason: str
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    failed_ranks: int
    def __init__(self, outcome: _Optional[str] = ..., exit_code: _Optional[int] = ..., code: _Optional[str] = ..., reason: _Optional[str] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ..., failed_ranks: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("host", "exit")
    HOST_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    host: str
    exit: RankExit
    def __init__(self, host: _Optional[str] = ..., exit: _Optional[_Union[RankExit, _Mapping]] = ...) -> None: ...

class Wait(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Signal(_message.Message):
    __slots__ = ("id", "generation", "signum", "local_ranks")
    ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SIGNUM_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANKS_FIELD_NUMBER: _ClassVar[int]
    id: str
    generation: int
    signum: int
    local_ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[str] = ..., generation: _Optional[int] = ..., signum: _Optional[int] = ..., local_ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class Stacks(_message.Message):
    __slots__ = ("id", "generation", "local_ranks")
    ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANKS_FIELD_NUMBER: _ClassVar[int]
    id: str
    generation: int
    local_ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[str] = ..., generation: _Optional[int] = ..., local_ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class Inject(_message.Message):
    __slots__ = ("id", "generation", "local_ranks", "kind", "rank", "node", "port", "at", "step", "nth", "seconds", "signal", "code", "share", "period", "delay", "bytes", "mbit", "jump")
    ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANKS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    NTH_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MBIT_FIELD_NUMBER: _ClassVar[int]
    JUMP_FIELD_NUMBER: _ClassVar[int]
    id: str
    generation: int
    local_ranks: _containers.RepeatedScalarFieldContainer[int]
    kind: str
    rank: int
    node: str
    port: str
    at: str
    step: int
    nth: int
    seconds: float
    signal: int
    code: int
    share: float
    period: float
    delay: float
    bytes: int
    mbit: float
    jump: float
    def __init__(self, id: _Optional[str] = ..., generation: _Optional[int] = ..., local_ranks: _Optional[_Iterable[int]] = ..., kind: _Optional[str] = ..., rank: _Optional[int] = ..., node: _Optional[str] = ..., port: _Optional[str] = ..., at: _Optional[str] = ..., step: _Optional[int] = ..., nth: _Optional[int] = ..., seconds: _Optional[float] = ..., signal: _Optional[int] = ..., code: _Optional[int] = ..., share: _Optional[float] = ..., period: _Optional[float] = ..., delay: _Optional[float] = ..., bytes: _Optional[int] = ..., mbit: _Optional[float] = ..., jump: _Optional[float] = ...) -> None: ...
