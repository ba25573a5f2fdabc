"""What is to happen when ranks fail, hang or lag, as the command line says it."""

from __future__ import annotations

import math

import pytest

from elaunch.agent.options import Recovery
from elaunch.cli.options import parse
from elaunch.errors import UsageError


def test_what_holds_where_nothing_is_said(script: str) -> None:
    options = parse([script], {})
    assert options.recovery == Recovery()
    assert (options.recovery.hang_timeout, options.recovery.hang_floor, options.notice_signal) == (None, 60.0, None)


@pytest.mark.parametrize(("text", "seconds"), [("auto", None), ("off", math.inf), ("90", 90.0), ("0.5", 0.5)])
def test_the_time_after_which_ranks_hang(script: str, text: str, seconds: float | None) -> None:
    assert parse([f"--hang-timeout={text}", script], {}).recovery.hang_timeout == seconds
    assert parse([script], {"PET_HANG_TIMEOUT": text}).recovery.hang_timeout == seconds


def test_fewer_nodes_than_wanted_may_be_enough(script: str) -> None:
    options = parse(["--nnodes=4", "--min-nodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=n0", script], {})
    assert (options.min_nodes, options.max_nodes) == (2, 4)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--hang-timeout=0"], "--hang-timeout=0: expected seconds, auto or off"),
        (["--hang-timeout=nan"], "--hang-timeout=nan: expected seconds, auto or off"),
        (["--hang-timeout=soon"], "--hang-timeout=soon: expected seconds, auto or off"),
        (["--hang-floor=0"], "--hang-floor=0: expected seconds, more than 0"),
        (["--restart-window=-1"], "--restart-window=-1: expected seconds, 0 or more"),
        (["--straggler-factor=1"], "--straggler-factor=1: expected a number above 1"),
        (["--spares=-1"], "--spares=-1: expected 0 or more"),
        (["--crash-loop=-1"], "--crash-loop=-1: expected 0 or more"),
        (["--suspect-after=-1"], "--suspect-after=-1: expected 0 or more"),
        (["--nnodes=1:2", "--fixed-world"], "--fixed-world with --nnodes=1:2: expected one number, not a range"),
        (["--nnodes=2", "--min-nodes=3"], "--min-nodes=3: expected 1 to 2, the greatest number of --nnodes"),
        (["--nnodes=2", "--min-nodes=0"], "--min-nodes=0: expected 1 to 2, the greatest number of --nnodes"),
        (["--notice-signal=USR1,USR2"], "--notice-signal=USR1,USR2: expected one signal"),
    ],
)
def test_bad_values_are_one_line(script: str, arguments: list[str], line: str) -> None:
    with pytest.raises(UsageError) as error:
        parse([*arguments, script], {})
    assert str(error.value) == line
