"""The command line as the agent gets it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from elaunch.agent.options import Endpoint, LaunchOptions, Streams
from elaunch.agent.program import Program
from elaunch.cli import devices
from elaunch.cli.options import parse
from elaunch.errors import UsageError


def test_the_plain_call_is_one_standalone_rank(script: str) -> None:
    options = parse([script, "--lr", "1"], {})
    assert options.program == Program("script", script, ("--lr", "1"), sys.executable)
    assert (options.min_nodes, options.max_nodes, options.slots) == (1, 1, 1)
    assert options.standalone
    assert options.endpoints == ()
    assert options.start == "warm"
    assert options.shutdown_timeout == 30
    assert options.signals == (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    assert options.logs.tee == (Streams.NONE,)
    assert options.warnings == ()


def test_two_plain_jobs_have_two_names(script: str) -> None:
    assert parse([script], {}).job != parse([script], {}).job


@pytest.mark.parametrize(
    ("arguments", "backend", "endpoints", "standalone"),
    [
        (["--standalone"], "c10d", (), True),
        (["--rdzv-backend=c10d"], "c10d", (), True),
        (["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"], "c10d", (), True),
        (["--rdzv-backend=c10d", "--nnodes=2"], "c10d", (Endpoint("localhost", 29400),), False),
        (
            ["--rdzv-backend=c10d", "--nnodes=2", "--rdzv-endpoint=n0"],
            "c10d",
            (Endpoint("n0", 29400),),
            False,
        ),
        (
            ["--rdzv-backend=c10d", "--nnodes=3", "--rdzv-endpoint=n0,n1:7"],
            "c10d",
            (Endpoint("n0", 29400), Endpoint("n1", 7)),
            False,
        ),
        (["--rdzv-backend=etcd"], "etcd", (Endpoint("localhost", 2379),), False),
        (
            ["--rdzv-backend=etcd", "--rdzv-endpoint=a,[fe80::1]:7,c:8"],
            "etcd",
            (Endpoint("a", 2379), Endpoint("fe80::1", 7), Endpoint("c", 8)),
            False,
        ),
        (["--nnodes=2", "--master-addr=n0"], "static", (Endpoint("n0", 29500),), False),
        (["--master-port=1234"], "static", (Endpoint("127.0.0.1", 1234),), False),
        (["--nnodes=2", "--rdzv-endpoint=n0"], "static", (Endpoint("n0", 29500),), False),
        (["--nnodes=2", "--master-addr=[::1]"], "static", (Endpoint("::1", 29500),), False),
    ],
)
def test_where_nodes_meet(
    script: str, arguments: list[str], backend: str, endpoints: tuple[Endpoint, ...], standalone: bool
) -> None:
    options = parse([*arguments, script], {})
    assert (options.backend, options.endpoints, options.standalone) == (backend, endpoints, standalone)


def test_node_rank_counts_for_static_only(script: str) -> None:
    assert parse(["--nnodes=2", "--node-rank=1", script], {}).node_rank == 1
    assert parse(["--nnodes=2", "--rdzv-conf=rank=1", script], {}).node_rank == 1
    other = parse(["--nnodes=2", "--node-rank=1", "--rdzv-backend=etcd", "--rdzv-id=j", script], {})
    assert other.node_rank == -1
    assert "static" in other.warnings[0]


def test_a_rank_that_was_asked_for_is_the_nodes_own(script: str) -> None:
    assert parse(["--nnodes=2", "--node-rank=0", script], {}).owns_rank
    assert parse(["--nnodes=2", "--rdzv-conf=rank=0", script], {}).owns_rank
    assert parse(["--nnodes=2", script], {"PET_NODE_RANK": "0"}).owns_rank
    assert not parse(["--nnodes=2", script], {}).owns_rank
    assert not parse(["--nnodes=2", "--node-rank=1", "--rdzv-backend=c10d", script], {}).owns_rank
    assert not parse(["--standalone", "--node-rank=0", script], {}).owns_rank


def test_a_nameless_job_of_many_nodes_is_warned_of(script: str) -> None:
    options = parse(["--nnodes=2", "--rdzv-backend=etcd", script], {})
    assert options.job == "none"
    assert "--rdzv-id" in options.warnings[0]
    assert parse(["--rdzv-id=mine", script], {}).job == "mine"


def test_rendezvous_settings(script: str, tmp_path: Path) -> None:
    pem = tmp_path / "some.pem"
    pem.touch()
    conf = parse([f"--rdzv-conf=join_timeout=5,keep_alive_interval=1,is_host=true,cacert={pem}", script], {}).conf
    assert (conf.join_timeout, conf.lease_ttl, conf.is_host) == (5, 3, True)
    assert (conf.access.protocol, conf.access.ca_cert) == ("https", str(pem))
    assert parse(["--rdzv-conf=lease_ttl=7", script], {}).conf.lease_ttl == 7


def test_the_password_comes_from_outside_and_is_never_shown(script: str, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("from-file\n")
    by_env = parse(["--rdzv-conf=user=u", script], {"ELAUNCH_ETCD_PASSWORD": "from-env"})
    assert by_env.conf.access.password == "from-env"
    by_file = parse([f"--rdzv-conf=user=u,password_file={secret}", script], {})
    assert by_file.conf.access.password == "from-file"
    assert "from-" not in repr(by_env) + repr(by_file)
    with pytest.raises(UsageError) as refused:
        parse(["--rdzv-conf=bad=1,password=hunter2", script], {})
    assert "hunter2" not in str(refused.value)


def test_logs(script: str, tmp_path: Path) -> None:
    arguments = [
        "--nproc=12",
        f"--log-dir={tmp_path}",
        "-r3",
        "-t",
        "0:1,11:3",
        "--local-ranks-filter=0,11",
        script,
    ]
    logs = parse(arguments, {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "x"}).logs
    assert logs.redirects == (Streams.BOTH,) * 12
    assert logs.tee == (Streams.OUT, *[Streams.NONE] * 10, Streams.BOTH)
    assert logs.shown == {0, 11}
    assert logs.line_prefix == "x"
    assert parse(["--duplicate-stdout-filters=a,,b,c", script], {}).logs.duplicate_stdout == ("a,b", "c")
    assert parse(["--log-dir=/dev/null", script], {}).logs.directory == "/dev/null"


@pytest.mark.parametrize(
    ("arguments", "environ", "seconds"),
    [
        (["--shutdown-timeout=3"], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "9"}, 3),
        ([], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "9"}, 9),
        (["--shutdown-timeout=3", "--grace-period=0.5"], {}, 0.5),
        (["--shutdown-timeout=0"], {}, 0),
    ],
)
def test_shutdown_timeout(script: str, arguments: list[str], environ: dict[str, str], seconds: float) -> None:
    assert parse([*arguments, script], environ).shutdown_timeout == seconds


def test_kinds_of_program(script: str) -> None:
    def program(*arguments: str) -> tuple[str, str]:
        options = parse(arguments, {"PATH": "/bin:/usr/bin"})
        return options.program.kind, options.start

    assert program("-m", "json.tool") == ("module", "warm")
    assert program("--no-python", "sh", "-c", "true") == ("command", "exec")
    assert program("--no-python", "--run-path", script) == ("run_path", "warm")
    assert program("--start=exec", script) == ("script", "exec")


def test_another_interpreter_starts_with_exec(script: str) -> None:
    options = parse(["--start=warm", script], {"PYTHON_EXEC": "/bin/sh", "PATH": "/bin"})
    assert (options.program.interpreter, options.start) == ("/bin/sh", "exec")
    assert "PYTHON_EXEC" in options.warnings[0]


def test_log_level(script: str) -> None:
    def level(arguments: list[str], **environ: str) -> str:
        return parse([*arguments, script], environ).log_level

    assert level([]) == "info"
    assert level(["--quiet"], ELAUNCH_LOG_LEVEL="debug") == "warning"
    assert level(["--quiet", "--log-level=error"]) == "error"
    assert level([], ELAUNCH_LOG_LEVEL="debug") == "debug"


BAD = [
    (["--nnodes=0"], {}, "--nnodes=0"),
    (["--nnodes=3:2"], {}, "--nnodes=3:2"),
    (["--nnodes=1:2:3"], {}, "MIN:MAX"),
    (["--nnodes=-1"], {}, "MIN:MAX"),
    ([], {"PET_NNODES": "two"}, "PET_NNODES=two"),
    (["--standalone", "--nnodes=2"], {}, "--standalone is for one node"),
    (["--standalone"], {"PET_NNODES": "2"}, "PET_NNODES=2"),
    (["--nproc-per-node=0"], {}, "--nproc-per-node=0"),
    (["--nproc-per-node=all"], {}, "auto, cpu, gpu or xpu"),
    (["--max-restarts=-1"], {}, "0 or more"),
    ([], {"PET_MAX_RESTARTS": "x"}, "PET_MAX_RESTARTS=x: expected an integer"),
    ([], {"PET_STANDALONE": "perhaps"}, "PET_STANDALONE=perhaps"),
    ([], {"PET_START_METHOD": "thread"}, "PET_START_METHOD=thread"),
    (["--monitor-interval=nan"], {}, "expected a number"),
    (["--rdzv-backend=etcd-v2"], {}, "use etcd"),
    (["--rdzv-backend=zookeeper"], {}, "etcd, c10d or static"),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=a:0", "--nnodes=2"], {}, "port 0"),
    (["--rdzv-endpoint=http://a:1"], {}, "without a scheme"),
    (["--rdzv-endpoint=a:99999"], {}, "0 to 65535"),
    (["--rdzv-endpoint=[::1"], {}, "[IPv6]:PORT"),
    (["--rdzv-backend=etcd", "--rdzv-endpoint=a,a"], {}, "twice"),
    (["--master-port=70000"], {}, "--master-port=70000"),
    (["--nnodes=2", "--master-addr=a b"], {}, "--master-addr=a b"),
    (["--nnodes=2", "--node-rank=2"], {}, "below the 2"),
    (["--node-rank=-1"], {}, "--node-rank=-1"),
    (["--rdzv-id="], {}, "--rdzv-id="),
    (["--rdzv-conf=foo=1"], {}, "unknown key 'foo'"),
    (["--rdzv-conf=join_timeout"], {}, "KEY=VALUE"),
    (["--rdzv-conf=join_timeout=0"], {}, "more than 0"),
    (["--rdzv-conf=lease_ttl=1"], {}, "2 or more"),
    (["--rdzv-conf=ca_cert=/no/such"], {}, "no such file"),
    (["--rdzv-conf=user=u"], {}, "ELAUNCH_ETCD_PASSWORD"),
    (["-r", "4"], {}, "--redirects=4"),
    (["-t", "a:1"], {}, "RANK:N"),
    (["--local-ranks-filter=a"], {}, "local ranks"),
    (["--log-dir=/dev/null/x"], {}, "not a folder"),
    (["--log-dir=/proc/logs/x"], {}, " in /proc"),
    (["--logs-specs=mine"], {}, "torchrun.logs_specs"),
    (["--event-log-handler=mine"], {}, "null or console"),
    (["--signals-to-handle=SIGFOO"], {}, "'SIGFOO' is no signal"),
    (["--signals-to-handle=SIGKILL"], {}, "cannot be handed on"),
    (["--signals-to-handle="], {}, "SIGTERM,SIGUSR1"),
    (["--shutdown-timeout=-1"], {}, "0 or more"),
    (["--grace-period=x"], {}, "--grace-period=x: expected a number"),
    ([], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "x"}, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x"),
    (["--role="], {}, "--role="),
    (["--local-addr=a b"], {}, "--local-addr=a b"),
    (["--local-addr=192.0.2.1"], {}, "--local-addr=192.0.2.1: no address of this host"),
    (["--local-addr=[2001:db8::1]"], {}, "--local-addr=[2001:db8::1]: no address of this host"),
    (["--local-addr=0.0.0.0"], {}, "--local-addr=0.0.0.0: no address of this host"),
    (["--local-addr=no.such.host.invalid"], {}, "this name has no address"),
    (["--numa-binding=core"], {}, "core-complex"),
    (["--start=cold"], {}, "warm, exec"),
    (["--preload=a-b"], {}, "'a-b'"),
    (["--preload=numpy", "--start=exec"], {}, "warm start"),
    (["--no-python", "-m"], {}, "--no-python and --module"),
    (["--no-python"], {"PATH": "/nowhere"}, "--no-python"),
    ([], {"PYTHON_EXEC": "/no/python"}, "PYTHON_EXEC=/no/python"),
    (["--log-level=loud"], {}, "debug, info"),
    ([], {"ELAUNCH_LOG_LEVEL": "loud"}, "ELAUNCH_LOG_LEVEL=loud"),
    (["--bogus"], {}, "--bogus"),
    (["--st"], {}, "ambiguous"),
]


@pytest.mark.parametrize(("arguments", "environ", "part"), BAD, ids=[f"{a}{e}" for a, e, _ in BAD])
def test_bad_input_is_one_line(script: str, arguments: list[str], environ: dict[str, str], part: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse([*arguments, script], environ)
    assert part in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--preload=x,a-b"], "--preload=x,a-b: 'a-b' is no module's name"),
        (["--rdzv-conf=lease_ttl=1"], "--rdzv-conf=lease_ttl=1: expected whole seconds, 2 or more, 1000000 at most"),
        (["--nprocs=2"], "unrecognized arguments: --nprocs=2; did you mean --nproc-per-node?"),
        (["--max_restart_s"], "unrecognized arguments: --max_restart_s; did you mean --max-restarts?"),
        (["-nnodes=2"], "unrecognized arguments: -nnodes=2; did you mean --nnodes or --min-nodes?"),
        (["--zzz"], "unrecognized arguments: --zzz; elaunch --help shows the options"),
    ],
)
def test_what_was_typed_is_shown_and_what_was_meant(script: str, arguments: list[str], line: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse([*arguments, script], {})
    assert str(refused.value) == line


def test_an_unknown_key_is_told_all_keys(script: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(["--rdzv-conf=lease_tll=9,is_host=1", script], {})
    told, _, keys = str(refused.value).partition("the keys are ")
    assert "unknown key 'lease_tll'; did you mean lease_ttl?" in told
    assert {"cert", "key", "cacert", "ca_cert", "ssl_cert", "ssl_cert_key", "lease_ttl"} <= set(keys.split(", "))
    for key in keys.split(", "):
        with pytest.raises(UsageError) as refused:
            parse([f"--rdzv-conf={key}=?", script], {})
        assert "unknown" not in str(refused.value)


def test_ranks_are_bound_near_gpus_only_where_there_are_any(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "torch_build", devices.Build)
    monkeypatch.setattr("elaunch.cli.settings.torch_build", devices.Build)
    monkeypatch.setattr(devices, "_nvml_count", lambda: 2)
    assert parse(["--numa-binding=node", script], {}).numa_binding == "node"
    with pytest.raises(UsageError, match="--numa-binding=node: binds each rank near its GPU, and no gpu is visible"):
        parse(["--numa-binding=node", script], {"CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.parametrize("name", ["absent.py", ".", "-"])
def test_a_script_must_be_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="script"):
        parse([name], {})


def test_options_can_be_compared_and_kept(script: str) -> None:
    options: LaunchOptions = parse(["--rdzv-id=a", script], {})
    assert hash(options) == hash(parse(["--rdzv-id=a", script], {}))


@pytest.mark.parametrize("name", ["USR1", "SIGUSR1"])
def test_a_signal_may_be_told_without_its_first_letters(name: str, script: str) -> None:
    assert parse([f"--notice-signal={name}", script], {}).notice_signal == signal.SIGUSR1
    with pytest.raises(UsageError, match="no signal here"):
        parse([f"--notice-signal=X{name}", script], {})
