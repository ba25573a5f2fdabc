"""The options of ``elaunch``, one row each: torchrun's, with its names and defaults, and a few more."""

from __future__ import annotations

from elaunch.cli.binding_flags import BINDING
from elaunch.cli.flag import Flag
from elaunch.cli.serving_flags import SECURITY, WEB

START_METHODS = ("spawn", "fork", "forkserver")
NUMA_BINDINGS = ("node", "socket", "exclusive", "core-complex")
START_MODES = ("warm", "exec")
ON_FAILURE = ("restart", "stop")
ON_LINK_FAULT = ("report", "redistribute", "restart")
LOG_LEVELS = ("debug", "info", "warning", "error")


SIZE = (
    Flag("nnodes", "number of nodes, or MIN:MAX", default="1:1", metavar="N|MIN:MAX"),
    Flag("min_nodes", "go on with so few: the MIN of --nnodes", "integer", metavar="N", ours=True),
    Flag("nproc_per_node", "ranks per node: a number, auto, cpu, gpu or xpu", default="1", metavar="N"),
    Flag("max_restarts", "restarts of the job before it fails", "integer", 0, metavar="N"),
    Flag("role", "name of this node's kind of ranks", default="default", metavar="NAME"),
)

RENDEZVOUS = (
    Flag("rdzv_backend", "etcd, c10d or static", default="static", metavar="NAME"),
    Flag("rdzv_endpoint", "HOST[:PORT], several with commas", default="", metavar="HOST:PORT"),
    Flag("rdzv_id", "the job's name; unique by default on one node", default="none", metavar="ID"),
    Flag("rdzv_conf", "more settings: KEY=VALUE,...", default="", metavar="K=V,..."),
    Flag("standalone", "one node, nothing else needed: the rendezvous is this process's own", "flag", False),
    Flag("node_rank", "static: this node's rank", "integer", 0, metavar="N"),
    Flag("master_addr", "static: host of node 0", default="127.0.0.1", metavar="HOST"),
    Flag("master_port", "static: port on node 0 (29500)", "integer", metavar="PORT"),
    Flag("local_addr", "address under which the others reach this node", metavar="HOST"),
)

PROGRAM = (
    Flag("module", "the program is a module, as with python -m", "flag", False, "-m"),
    Flag("no_python", "the program is a command, run as it is", "flag", False),
    Flag("run_path", "the program is run with runpy.run_path", "flag", False),
    Flag(
        "start",
        "fork ranks from a warm process, or exec each",
        "choice",
        "warm",
        choices=START_MODES,
        ours=True,
    ),
    Flag("preload", "modules for the warm process to import", "list", (), metavar="MODULE,...", ours=True),
    Flag("start_method", "accepted for torchrun, no effect on programs", "choice", "spawn", choices=START_METHODS),
    Flag("numa_binding", "bind ranks to CPUs", "choice", choices=NUMA_BINDINGS, env=False),
    Flag("virtual_local_rank", "each rank sees its device as number 0", "flag", False),
    Flag(
        "no_start_check",
        "leave out the checks and records of a start, and of meshes (no hooks in torch.distributed)",
        "flag",
        False,
        ours=True,
    ),
)

STOPPING = (
    Flag(
        "signals_to_handle",
        "signals handed on to the ranks",
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        metavar="SIG,...",
    ),
    Flag(
        "shutdown_timeout",
        "from SIGTERM to SIGKILL (30, or $TORCH_ELASTIC_SHUTDOWN_TIMEOUT)",
        "integer",
        metavar="SECONDS",
    ),
    Flag(
        "grace_period",
        "the same, with fractions; overrides --shutdown-timeout",
        "number",
        metavar="SECONDS",
        ours=True,
    ),
    Flag("notice_signal", "sent to the ranks before a planned stop, to save and exit", metavar="SIG", ours=True),
    Flag(
        "warning_signal",
        "under Slurm: says that the job's time is nearly up (none: it is handed on)",
        default="USR1",
        metavar="SIG|none",
        ours=True,
    ),
    Flag("monitor_interval", "accepted; deaths are seen at once", "number", 0.1, metavar="SECONDS"),
)

RECOVERY = (
    Flag("on_failure", "restart the ranks, or stop the job", "choice", "restart", choices=ON_FAILURE, ours=True),
    Flag(
        "restart_window",
        "restarts longer ago do not count if the job got on since (0: all count)",
        "number",
        0.0,
        metavar="SECONDS",
        ours=True,
    ),
    Flag(
        "crash_loop",
        "restarts in a row that lead nowhere before the job ends with 93 (0: never)",
        "integer",
        5,
        metavar="N",
        ours=True,
    ),
    Flag(
        "suspect_after",
        "failures in a row without progress after which the checkpoint before them is avoided (0: never)",
        "integer",
        3,
        metavar="N",
        ours=True,
    ),
    Flag(
        "hang_timeout",
        "without progress for so long the job hangs: seconds, auto (learnt from its own times), or off",
        default="auto",
        metavar="SECONDS",
        ours=True,
    ),
    Flag("hang_floor", "what auto never goes below", "number", 60.0, metavar="SECONDS", ours=True),
    Flag(
        "straggler_factor",
        "a rank that works for so many times as long as its peers is told",
        "number",
        2.0,
        metavar="FACTOR",
        ours=True,
    ),
    Flag(
        "quarantine_faults",
        "faults in an hour that put a host aside for one, where there are others (0: never)",
        "integer",
        3,
        metavar="N",
        ours=True,
    ),
    Flag(
        "on_link_fault",
        "a port breaks: report it, leave it out of the next generation, or begin that now",
        "choice",
        "report",
        choices=ON_LINK_FAULT,
        ours=True,
    ),
    Flag("allow_injection", "let operators inject faults into the job (elaunch inject)", "flag", False, ours=True),
    Flag("fixed_world", "the program needs the world that it began with: refuse another", "flag", False, ours=True),
    Flag("slurm_drain", "under Slurm: have hosts that fail drained, with the reason", "flag", False, ours=True),
    Flag("spares", "nodes beyond the wanted number that wait for one to fail", "integer", 0, metavar="N", ours=True),
)

LOGS = (
    Flag("log_dir", "where log files go (default: a temporary folder)", metavar="DIR"),
    Flag(
        "redirects",
        "streams to files: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,...",
        default="0",
        short="-r",
        metavar="N",
    ),
    Flag("tee", "streams to files and console, in the same form", default="0", short="-t", metavar="N"),
    Flag("local_ranks_filter", "local ranks shown on the console", default="", metavar="RANK,..."),
    Flag("duplicate_stdout_filters", "lines of stdout to be written apart", "list", (), metavar="TEXT,..."),
    Flag("duplicate_stderr_filters", "lines of stderr to be written apart", "list", (), metavar="TEXT,..."),
    Flag("logs_specs", "entry point of group torchrun.logs_specs", metavar="NAME", env=False),
    Flag("event_log_handler", "null or console", default="null", metavar="NAME"),
    Flag("log_level", "of elaunch itself ($ELAUNCH_LOG_LEVEL)", "choice", choices=LOG_LEVELS, ours=True),
    Flag("quiet", "warnings and errors only", "flag", False, ours=True),
)

GROUPS: dict[str, tuple[Flag, ...]] = {
    "size of the job": SIZE,
    "rendezvous": RENDEZVOUS,
    "program": PROGRAM,
    "devices, NICs and CPUs": BINDING,
    "restarting and stopping": STOPPING,
    "faults": RECOVERY,
    "security": SECURITY,
    "page and metrics": WEB,
    "logs": LOGS,
}
FLAGS: dict[str, Flag] = {flag.dest: flag for group in GROUPS.values() for flag in group}
