"""`elaunch inject` before it asks anybody: what is refused, and the list."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from elaunch.agent.terms import policy_from
from elaunch.cli import inject
from elaunch.cli.options import parse
from elaunch.errors import UsageError
from elaunch.inject import KINDS, POINTS


def test_the_list_has_every_fault_and_every_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert inject.run(["--list"], {}) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line.split()[0] for line in lines if line.strip()]
    assert [word for word in first if word in KINDS] == list(KINDS)
    assert [word for word in first if word in POINTS and word not in KINDS] == list(POINTS)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["job"], "the following arguments are required: FAULT"),
        (["job", "fire"], "argument FAULT: invalid choice: 'fire'"),
        (["job", "partition", "--node=a"], "argument FAULT: 'partition' takes a laboratory"),
        (["job", "kill"], "kill hits a rank: say which (--rank)"),
        (["job", "undo"], "undo takes --rank or --node, and nothing else: it ends all that is there"),
        (["job", "undo", "--rank=1", "--node=a"], "undo takes --rank or --node, and nothing else"),
        (["job", "undo", "--rank=1", "--signal=9"], "undo takes --rank or --node, and nothing else"),
        (["job", "undo", "--rank=1", "--duration=9"], "undo: it has no duration"),
        (["job", "agent-kill", "--rank=1"], "agent-kill hits a node: say which (--node)"),
        (["job", "link-down", "--node=a"], "link-down hits a port: say which (--port)"),
        (["job", "link-down"], "link-down hits a port: say which (--node and --port)"),
        (["job", "kill", "--rank=1", "--port=mlx5_0:1"], "kill takes no --port"),
        (["job", "kill", "--rank=1", "--node=a"], "kill takes no --node"),
        (["job", "agent-kill", "--node=a", "--rank=1"], "agent-kill takes no --rank"),
        (["job", "kill", "--rank=x"], "argument --rank: 'x': expected a whole number from 0"),
        (["job", "kill", "--rank=1", "--delay=2"], "kill takes no --delay"),
        (["job", "agent-kill", "--node=a", "--port=mlx5_0"], "agent-kill takes no --port"),
        (["job", "kill", "--rank=1", "--duration=2"], "kill: it has no duration"),
        (["job", "slow-cpu", "--rank=1", "--share=2"], "slow-cpu: share=2: expected 0 to 1"),
        (["job", "kill", "--rank=1", "--step=4"], "kill: step and nth are of a point of the program (at)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words: Sequence[str], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        inject.run(words, {})
    assert str(caught.value).startswith(f"elaunch inject: {text}")
    assert "\n" not in str(caught.value)


def test_a_job_allows_it_only_if_told_to() -> None:
    for words, allowed in (([], False), (["--allow-injection"], True)):
        options = parse([*words, __file__], {})
        assert options.allow_injection is allowed
        assert policy_from(options).allow_injection is allowed
