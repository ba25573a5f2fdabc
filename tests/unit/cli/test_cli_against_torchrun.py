"""Our parser beside torchrun's own: the same command line and environment must give the same values."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from elaunch.cli.flags import FLAGS
from elaunch.cli.parser import Values, read
from elaunch.errors import UsageError

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_TORCHRUN = """
import contextlib, io, json, os, sys
from torch.distributed.run import get_args_parser

def values(environ, argv):
    for name in [n for n in os.environ if n.startswith("PET_")]:
        del os.environ[name]
    os.environ.update(environ)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return vars(get_args_parser().parse_args(argv))
    except (SystemExit, ValueError):
        return None

actions = [
    {"spellings": a.option_strings, "dest": a.dest, "default": a.default, "choices": a.choices,
     "type": getattr(a.type, "__name__", None), "flag": a.nargs == 0, "env": "env" in type(a).__name__}
    for a in get_args_parser()._actions if a.option_strings and a.dest != "help"
]
cases = json.load(sys.stdin)
json.dump({"actions": actions, "parsed": [values(*case) for case in cases]}, sys.stdout)
"""

CASES: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["train.py"]),
    ({}, ["--nnodes", "1:4", "--nproc-per-node=8", "train.py"]),
    ({}, ["--nproc_per_node", "auto", "--max_restarts=3", "train.py", "--lr", "0.1"]),
    ({}, ["--nproc-per", "2", "--max-r", "1", "--standalone", "train.py"]),
    ({}, ["--standa", "--monitor-i", "0.5", "train.py"]),
    ({}, ["--virtual-local", "--start-m=fork", "train.py"]),
    ({}, ["-m", "package.train", "-m"]),
    ({}, ["-r", "3", "-t", "0:1,1:2", "train.py"]),
    ({}, ["-r3", "-t1", "train.py"]),
    ({}, ["-mr", "3", "package.train"]),
    ({}, ["-mr3", "package.train"]),
    ({}, ["--duplicate-stdout-filters", "a,,b,c", "--duplicate_stderr_filters=x", "train.py"]),
    ({}, ["train.py", "--nnodes", "3", "-m", "--standalone"]),
    ({}, ["train.py", "--", "--nnodes", "3"]),
    ({}, ["train.py", "a", "--", "b"]),
    ({}, ["--standalone", "--", "train.py", "--x"]),
    ({}, ["--max-restarts", "-1", "train.py"]),
    ({}, ["--rdzv-endpoint=", "train.py", ""]),
    ({}, ["--nnodes=1", "--nnodes=2", "train.py"]),
    ({}, ["--rdzv-conf", "a=b,c=d=e", "--rdzv-id=x=y", "train.py"]),
    ({}, ["--numa-binding", "core-complex", "--logs-specs", "mine", "train.py"]),
    ({}, ["--no-python", "echo", "-n"]),
    ({}, ["--run_path", "/abs/train.py", "--", "-x"]),
    ({"PET_NNODES": "2", "PET_MAX_RESTARTS": "7", "PET_MONITOR_INTERVAL": "2"}, ["train.py"]),
    ({"PET_NNODES": "2", "PET_MAX_RESTARTS": "7"}, ["--nnodes=4", "train.py"]),
    ({"PET_STANDALONE": "1", "PET_MODULE": "0", "PET_NO_PYTHON": "1"}, ["train.py"]),
    ({"PET_DUPLICATE_STDOUT_FILTERS": "a,b", "PET_SHUTDOWN_TIMEOUT": "9"}, ["train.py"]),
    ({"PET_LOGS_SPECS": "mine", "PET_NUMA_BINDING": "node"}, ["train.py"]),
    ({"PET_M": "1", "PET_R": "3"}, ["train.py"]),
    ({"PET_MAX_RESTARTS": "many"}, ["--max-restarts=2", "train.py"]),
    ({}, ["--log-dir", "a b", "train.py", "--", "--"]),
    ({}, ["--role", "", "train.py"]),
    ({}, ["-t=1", "train.py"]),
    # refused by both
    ({}, ["--rdzv-id", "-x", "train.py"]),
    ({}, ["-mx", "train.py"]),
    ({}, ["--max-restarts=", "train.py"]),
    ({}, ["--nnodes"]),
    ({}, ["--bogus", "train.py"]),
    ({}, ["--max-restarts=x", "train.py"]),
    ({}, ["--max-restarts=1.5", "train.py"]),
    ({}, ["--monitor-interval=soon", "train.py"]),
    ({}, ["--start-method=thread", "train.py"]),
    ({}, ["--standalone=1", "train.py"]),
    ({}, ["--st", "train.py"]),
    ({}, ["--n", "1", "train.py"]),
    ({"PET_MAX_RESTARTS": "many"}, ["train.py"]),
    ({"PET_STANDALONE": "maybe"}, ["train.py"]),
]

BETTER: list[tuple[dict[str, str], list[str], dict[str, Any]]] = [
    ({"PET_STANDALONE": "true"}, ["train.py"], {"standalone": True}),
    ({"PET_STANDALONE": "off"}, ["train.py"], {"standalone": False}),
    ({}, ["--nproc", "2", "train.py"], {"nproc_per_node": "2"}),
    ({}, ["--start", "fork", "train.py"], {"start_method": "fork"}),
    ({}, ["train.py", "--nproc", "3"], {"nproc_per_node": "1"}),
]


@pytest.fixture(scope="module")
def torchrun() -> dict[str, Any]:
    """torchrun's options, and what it makes of CASES. One process, since importing torch takes seconds."""
    done = subprocess.run(
        [sys.executable, "-c", _TORCHRUN],
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_every_option_is_here_under_the_same_names(torchrun: dict[str, Any]) -> None:
    for action in torchrun["actions"]:
        flag = FLAGS[action["dest"]]
        assert list(flag.spellings) == action["spellings"]
        assert flag.env == action["env"], flag.dest
        assert not flag.ours


def test_every_option_has_the_same_default_and_kind(torchrun: dict[str, Any]) -> None:
    kinds = {"int": "integer", "float": "number", "comma_separated_list": "list", "str": "text", None: "text"}
    for action in torchrun["actions"]:
        flag = FLAGS[action["dest"]]
        default = list(flag.default) if isinstance(flag.default, tuple) else flag.default
        assert default == action["default"], flag.dest
        assert list(flag.choices) == (action["choices"] or []), flag.dest
        expected = "flag" if action["flag"] else "choice" if action["choices"] else kinds[action["type"]]
        assert flag.kind == expected, flag.dest


def test_what_torchrun_lacks_is_marked_as_ours(torchrun: dict[str, Any]) -> None:
    theirs = {action["dest"] for action in torchrun["actions"]}
    assert {dest for dest, flag in FLAGS.items() if flag.ours} == FLAGS.keys() - theirs


@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda index: " ".join(CASES[index][1]))
def test_same_values(torchrun: dict[str, Any], index: int) -> None:
    expected = torchrun["parsed"][index]
    if expected is None:
        with pytest.raises(UsageError):
            read(CASES[index][1], CASES[index][0])
        return
    values = read(CASES[index][1], CASES[index][0])
    assert [expected.pop("training_script"), *expected.pop("training_script_args")] == list(values.command)
    assert _comparable(values, expected) == expected


def _comparable(values: Values, expected: dict[str, Any]) -> dict[str, Any]:
    ours = {dest: values[dest] for dest in expected}
    return {dest: list(value) if isinstance(value, tuple) else value for dest, value in ours.items()}


@pytest.mark.parametrize(("environ", "argv", "expected"), BETTER)
def test_where_torchrun_gives_up(environ: dict[str, str], argv: list[str], expected: dict[str, Any]) -> None:
    values = read(argv, environ)
    assert {dest: values[dest] for dest in expected} == expected
