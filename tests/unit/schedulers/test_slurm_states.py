"""Whether a job that ends is started again."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from elaunch.cli import slurm
from elaunch.controller.preemption import EXIT_WORK_REMAINS
from elaunch.controller.restarts import EXIT_CRASH_LOOP
from elaunch.schedulers.slurm_states import WORK_REMAINS, JobState, orphaned, requeued, state_in, state_of

# As Slurm 22.05 writes it, cut to what is read.
TOLD = "JobId=14 JobState={state} Reason=None TimeLimit={limit} StartTime=2026-11-30T14:21:06 EndTime={end} {more}"
SOON, LATER = "2026-11-30T14:21:36", "2026-11-30T14:22:06"


def told(state: str, limit: str = "00:01:00", end: str = SOON, more: str = "PreemptTime=None") -> str:
    return TOLD.format(state=state, limit=limit, end=end, more=more)


def test_the_codes_are_one() -> None:
    assert WORK_REMAINS == EXIT_WORK_REMAINS


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("RUNNING", JobState.RUNNING),
        ("CANCELLED by 1000", JobState.CANCELLED),
        ("COMPLETED+", JobState.COMPLETED),
        ("OUT_OF_MEMORY", JobState.OUT_OF_MEMORY),
        ("HIBERNATING", JobState.UNKNOWN),
        ("", JobState.UNKNOWN),
        ("7", JobState.UNKNOWN),
    ],
)
def test_states_that_are_not_known_are_unknown(text: str, state: JobState) -> None:
    assert state_of(text) is state


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (told("RUNNING"), JobState.RUNNING),
        (told("COMPLETING"), JobState.CANCELLED),
        (told("COMPLETING", limit="UNLIMITED", end=LATER), JobState.CANCELLED),
        (told("COMPLETING", end=LATER), JobState.TIMEOUT),
        (told("COMPLETING", limit="1-00:00:00", end=LATER), JobState.CANCELLED),
        (told("COMPLETING", limit="1-00:00:00", end="2026-12-01T14:21:07"), JobState.TIMEOUT),
        (told("COMPLETING", more="PreemptTime=2026-11-30T14:21:30"), JobState.PREEMPTED),
        (told("COMPLETING", end="Unknown"), JobState.CANCELLED),
        ("slurm_load_jobs error: Invalid job id specified", JobState.UNKNOWN),
    ],
)
def test_what_a_job_is_ended_for(said: str, state: JobState) -> None:
    assert state_in(said) is state


@pytest.mark.parametrize("code", [85, 69, 75])
def test_work_remains(code: int) -> None:
    for state in (JobState.RUNNING, JobState.TIMEOUT, JobState.PREEMPTED, JobState.UNKNOWN):
        assert requeued(code, state, 0, 20)[0]


@pytest.mark.parametrize("code", [0, 1, 2, 3, 91, EXIT_CRASH_LOOP, 94, 130, 137, 143])
def test_what_is_done_or_would_fail_again(code: int) -> None:
    wanted, why = requeued(code, JobState.RUNNING, 0, 20)
    assert not wanted
    assert why


def test_not_against_the_users_will_nor_twice_nor_for_ever() -> None:
    for state in (JobState.CANCELLED, JobState.PENDING, JobState.REQUEUED, JobState.DEADLINE):
        assert not requeued(85, state, 0, 20)[0]
    assert requeued(85, JobState.RUNNING, 19, 20)[0]
    assert not requeued(85, JobState.RUNNING, 20, 20)[0]


@pytest.mark.parametrize(("state", "asked"), [("RUNNING", True), ("COMPLETING", False)])
def test_the_command_asks_slurm_and_hands_the_code_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, asked: bool
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "{told(state)}"\n')
    scontrol.chmod(scontrol.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert slurm.run(["requeue", "85"], {"SLURM_JOB_ID": "14"}) == 85
    assert ("requeue 14" in (tmp_path / "asked").read_text()) == asked
    assert slurm.run(["requeue", "93"], {"SLURM_JOB_ID": "14"}) == 93
    assert (tmp_path / "asked").read_text().count("requeue 14") == asked


def test_of_a_job_without_its_batch_host_the_agents_ask_what_the_script_would_have() -> None:
    left = told("RUNNING", more="BatchFlag=1 NodeList=n[2-4] BatchHost=n1")
    assert orphaned(left, "n1", 85, 0)[0] == ["scontrol", "requeue", "14"]
    assert orphaned(left, "n1", 69, 0)[0] == ["scontrol", "requeue", "14"]
    assert orphaned(left, "n1", 0, 0)[0] == ["scancel", "14"]
    assert orphaned(left, "n1", 93, 0)[0] == ["scancel", "14"]
    assert orphaned(left, "n1", 85, 20)[0] == ["scancel", "14"]
    for other in (left.replace("RUNNING", "PENDING"), left.replace("BatchFlag=1", "BatchFlag=0"), ""):
        assert orphaned(other, "n1", 85, 0)[0] == []
    assert orphaned(left, "n2", 85, 0)[0] == []  # the step began on another host
