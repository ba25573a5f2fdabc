"""LaunchConfig says what the command line says, with the same defaults."""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

import elaunch
from elaunch.cli.flags import FLAGS
from elaunch.cli.options import parse
from elaunch.errors import UsageError

_NAMES = {"rdzv_id": "run_id", "rdzv_conf": "rdzv_configs", "numa_binding": "numa_options", "nnodes": "max_nodes"}
_OF_THE_PROGRAM = {"module", "no_python", "run_path"}
_UNSAID: dict[str, Any] = {
    "rdzv_conf": {},
    "nnodes": 1,
    "duplicate_stdout_filters": None,
    "duplicate_stderr_filters": None,
}
_SAME = {"min_nodes": 1, "nproc_per_node": 1}


def test_every_option_is_a_field_with_the_same_default() -> None:
    fields = {one.name: one for one in dataclasses.fields(elaunch.LaunchConfig)}
    config = elaunch.LaunchConfig()
    for dest, flag in FLAGS.items():
        if dest not in _OF_THE_PROGRAM:
            name = _NAMES.get(dest, dest)
            assert name in fields, dest
            assert getattr(config, name) == {**_UNSAID, **_SAME}.get(dest, flag.default), dest


def test_the_defaults_ask_for_what_the_bare_command_line_asks_for() -> None:
    asked = parse([*elaunch.LaunchConfig().options(), "--no-python", sys.executable], {})
    bare = parse(["--no-python", sys.executable], {})
    assert dataclasses.replace(asked, job="") == dataclasses.replace(bare, job="")


def test_what_is_asked_for_reaches_the_agent() -> None:
    config = elaunch.LaunchConfig(
        min_nodes=2,
        max_nodes=3,
        nproc_per_node=4,
        run_id="job-1",
        rdzv_backend="etcd",
        rdzv_endpoint="127.0.0.1:2379",
        rdzv_configs={"last_call_timeout": 3, "is_host": True},
        rdzv_timeout=77,
        max_restarts=5,
        preload=["json", "csv"],
        start="warm",
        grace_period=2.5,
        tee="3",
        redirects=1,
        hang_timeout=12.5,
        virtual_local_rank=True,
        numa_options=SimpleNamespace(affinity_mode=_Mode.NODE),
        duplicate_stdout_filters=["loss"],
        log_dir="/tmp/logs",
        local_ranks_filter=[0, 2],
        quiet=True,
    )
    options = [option for option in config.options() if not option.startswith("--numa-binding")]
    assert "--numa-binding=node" in config.options()
    asked = parse([*options, __file__], {})
    assert (asked.min_nodes, asked.max_nodes, asked.slots, asked.job) == (2, 3, 4, "job-1")
    assert (asked.backend, str(asked.endpoints[0])) == ("etcd", "127.0.0.1:2379")
    assert (asked.conf.last_call_timeout, asked.conf.is_host, asked.conf.timeout) == (3.0, True, 77.0)
    assert (asked.max_restarts, asked.preload, asked.shutdown_timeout) == (5, ("json", "csv"), 2.5)
    assert (asked.recovery.hang_timeout, asked.virtual_local_rank, asked.log_level) == (12.5, True, "warning")
    assert asked.logs.duplicate_stdout == ("loss",)
    assert asked.logs.shown == {0, 2}


class _Mode(Enum):
    NODE = "node"


def test_torchs_logs_specs_become_options() -> None:
    Specs = type("DefaultLogsSpecs", (), {})
    specs = Specs()
    specs.__dict__.update(_root_log_dir="/logs", _redirects=2, _tee={0: 3, 1: 1}, _local_ranks_filter={1})
    config = elaunch.LaunchConfig(logs_specs=specs)
    assert config.options()[1:] == ["--log-dir=/logs", "--redirects=2", "--tee=0:3,1:1", "--local-ranks-filter=1"]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"preload": ["a,b"]}, "preload"),
        ({"rdzv_configs": {"a": "1,2"}}, "rdzv_configs"),
        ({"logs_specs": object()}, "logs_specs=object"),
        ({"nic_map": object()}, "nic_map"),
    ],
)
def test_what_no_option_can_say_is_refused(fields: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        elaunch.LaunchConfig(**fields).options()
