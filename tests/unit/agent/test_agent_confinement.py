"""CPUs and memory of a process, and what is done where they cannot be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from elaunch.agent.confinement import memory_refused
from elaunch.topology.cpus import format_list
from tests.e2e.spawning import PROGRAMS, environment

ALLOWED = sorted(os.sched_getaffinity(0))
CONFINED = "import sys, json; from elaunch.agent.confinement import confine; c, m = json.loads(sys.argv[1]); {before}"
PREFERRED = 1


def confined(cpus: Sequence[int] | None, memory: int | None, before: str = "") -> tuple[dict[str, Any], list[str]]:
    """What a process sees of itself when it has been confined, and what was said."""
    text = CONFINED.format(before=before or "pass") + "; print(json.dumps(confine(c, m)), flush=True); import runpy; "
    text += f"runpy.run_path({str(PROGRAMS / 'confined.py')!r})"
    argv = [sys.executable, "-c", text, json.dumps([cpus, memory])]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=True)
    said, seen = map(json.loads, done.stdout.splitlines())
    return seen, said


needs_numa = pytest.mark.skipif(bool(memory_refused(0)), reason=f"no memory policy here: {memory_refused(0)}")


def test_by_default_nothing_changes() -> None:
    seen, said = confined(None, None)
    assert (seen["cpus"], said) == (ALLOWED, [])


def test_a_process_runs_where_it_is_told() -> None:
    assert confined([ALLOWED[-1]], None) == ({"cpus": [ALLOWED[-1]], "mode": 0, "nodes": 0}, [])


def test_what_is_not_allowed_is_left_out() -> None:
    seen, said = confined([ALLOWED[0], 9999], None)
    assert (seen["cpus"], said) == ([ALLOWED[0]], [])


def test_what_the_agent_may_not_use_is_left_out_too() -> None:
    before = f"import os; os.sched_setaffinity(0, [{ALLOWED[0]}])"
    assert confined([ALLOWED[0], ALLOWED[-1]], None, before) == ({"cpus": ALLOWED[:1], "mode": 0, "nodes": 0}, [])


def test_an_empty_intersection_leaves_it_as_it_is() -> None:
    seen, said = confined([9998, 9999], None)
    assert seen["cpus"] == ALLOWED
    assert said == [f"none of the CPUs 9998-9999 is allowed here; it may use all of {format_list(ALLOWED)}"]


@needs_numa
def test_memory_is_preferred_from_a_node() -> None:
    seen, said = confined(None, 0)
    assert (seen["mode"], seen["nodes"], said) == (PREFERRED, 1, [])


def test_a_node_that_is_not_there_is_told() -> None:
    seen, said = confined(None, 900)
    assert seen["mode"] == 0
    assert said[0].startswith("memory of NUMA node 900 cannot be preferred: ")
    assert confined(None, 4096)[1] == ["there is no NUMA node 4096"]


def test_a_machine_that_refuses_is_told_and_nothing_ends() -> None:
    refuse = "import os; os.sched_setaffinity = lambda *_: (_ for _ in ()).throw(PermissionError(1, 'no'))"
    seen, said = confined([ALLOWED[0]], None, refuse)
    assert seen["cpus"] == ALLOWED
    assert said == [f"cannot be bound to the CPUs {ALLOWED[0]}: no"]


def test_asking_leaves_the_agent_as_it_is() -> None:
    assert memory_refused(900) != ""
    assert sorted(os.sched_getaffinity(0)) == ALLOWED
