"""What goes over the control stream comes out as it went in."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from elaunch.controller.command_messages import pack_command, serialized, unpack_command
from elaunch.controller.commands import Abort, Command, End, Start, Wait
from elaunch.controller.heartbeat_messages import pack_heartbeat
from elaunch.controller.messages import MAX_MESSAGE, unpack_agent
from elaunch.controller.node_status import Answer, NodeStatus, RunPhase
from elaunch.controller.status_messages import pack_status
from elaunch.links import PortReport
from elaunch.progress import GroupProgress, Heartbeat, RankProgress
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.state import Failure, RankExit

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
exits = st.builds(RankExit, int32, int32, int64, int32, st.floats(allow_nan=False), text, text, text)
statuses = st.builds(
    NodeStatus,
    text,
    int64,
    st.sampled_from(RunPhase),
    st.lists(exits, max_size=3).map(tuple),
    int32,
    st.booleans(),
    text,
    int32,
    st.booleans(),
    text,
    st.lists(st.builds(Answer, text, st.booleans(), text), max_size=2).map(tuple),
    text,
)
seconds = st.floats(0, 1e8, width=32)
numbers = st.integers(0, 2**62)
groups = st.builds(
    GroupProgress, text, st.integers(0, 2**31 - 1), numbers, numbers, text, st.lists(int32, max_size=3).map(tuple)
)
ranks = st.builds(
    RankProgress,
    int32,
    int32,
    int64,
    text,
    st.booleans(),
    seconds,
    seconds,
    st.integers(-1, 2**62),
    seconds,
    text,
    st.none() | st.floats(-1e8, 1e8, width=32),
    text,
    seconds,
    seconds,
    seconds,
    seconds,
    st.lists(groups, max_size=2).map(tuple),
    st.booleans(),
)
heartbeats = st.builds(Heartbeat, text, int64, seconds, st.lists(ranks, max_size=3).map(tuple))
failures = st.lists(st.builds(Failure, text, exits), max_size=3).map(tuple)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        Start,
        *(int64, int32, int32, int32, int32, int32, int32, int32, text, int32, st.booleans(), text),
        avoid_ports=st.lists(st.tuples(text, text), max_size=2).map(tuple),
    ),
    st.builds(Abort, int64, text, text, st.booleans(), st.booleans()),
    st.builds(End, text, int32, text, text, failures),
    st.builds(Wait, text),
)


@given(statuses, int64)
def test_a_status_survives_the_wire(status: NodeStatus, epoch: int) -> None:
    message = pb.AgentMessage.FromString(pack_status(status, epoch).SerializeToString())
    assert unpack_agent(message) == status
    assert message.leader_epoch == epoch


@given(heartbeats, int64)
def test_a_heartbeat_survives_the_wire(heartbeat: Heartbeat, epoch: int) -> None:
    message = pb.AgentMessage.FromString(pack_heartbeat(heartbeat, epoch).SerializeToString())
    assert unpack_agent(message) == heartbeat
    assert message.leader_epoch == epoch


@pytest.mark.parametrize(
    "odd",
    [
        {"step_age": math.nan},
        {"beat_age": -0.5},
        {"progress_age": math.inf},
        {"own_seconds": 1e12},
        {"waited_seconds": -math.inf},
        {"section_left": math.nan},
        {"step": -7},
        {"step": 2**63 - 1},
        {"groups": (GroupProgress("0", 2, -3, 1),)},
    ],
    ids=str,
)
def test_of_a_rank_with_a_number_that_cannot_be_only_its_process_counts(odd: dict[str, Any]) -> None:
    """That its node lives is shown by the heartbeat, whatever it says."""
    well = RankProgress(0, 0, 100, attached=True, step=7, step_age=0.5)
    beat = Heartbeat("n0", 3, 0.25, (well, replace(well, rank=1, local_rank=1, pid=101, state="D", **odd)))
    found = unpack_agent(pb.AgentMessage.FromString(pack_heartbeat(beat, 1).SerializeToString()))
    assert isinstance(found, Heartbeat)
    assert found.impossible.startswith("rank 1: ")
    assert replace(found, impossible="") == replace(beat, ranks=(well, RankProgress(1, 1, 101, "D")))


@pytest.mark.parametrize("much", [{"section_left": 1e12}, {"cpu_seconds": 3e10}, {"section_left": -1e6}], ids=str)
def test_what_is_much_and_can_be_is_believed(much: dict[str, Any]) -> None:
    beat = Heartbeat("n0", 3, 0.25, (RankProgress(0, 0, 100, attached=True, step=7, **much),))
    found = unpack_agent(pack_heartbeat(beat, 1))
    assert isinstance(found, Heartbeat)
    assert (found.impossible, found.ranks[0].attached) == ("", True)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -1.0])
def test_what_cannot_be_of_ports_and_pace_is_not_known(odd: float) -> None:
    port = PortReport("mlx5_0:1", rate=odd, sent=odd, received=odd, rose={"symbol_error": -1, "link_downed": 2})
    found = unpack_agent(pack_heartbeat(Heartbeat("n0", 3, odd, (), (port,)), 1))
    assert isinstance(found, Heartbeat)
    assert found.impossible == f"interval={odd}"
    assert found.interval == 0.0
    assert found.ports == (PortReport("mlx5_0:1", rose={"link_downed": 2}),)


def test_a_message_of_neither_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a status nor a heartbeat"):
        unpack_agent(pb.AgentMessage(node_id="n0"))


@given(commands, int64)
def test_a_command_survives_the_wire(command: Command, epoch: int) -> None:
    for leader_epoch in (epoch, epoch ^ 1):  # what is kept of one leader's words is not told by the next
        message = pb.Command.FromString(serialized(command, leader_epoch))
        assert unpack_command(message) == command
        assert message.leader_epoch == leader_epoch


@given(st.binary(max_size=60))
def test_malformed_bytes_are_refused_or_mean_something(value: bytes) -> None:
    for kind, unpack in ((pb.AgentMessage, unpack_agent), (pb.Command, unpack_command)):
        try:
            unpack(kind.FromString(value))  # type: ignore[attr-defined, operator]
        except (DecodeError, ValueError):
            continue


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown run phase 99"):
        unpack_agent(pb.AgentMessage(node_id="n0", status=pb.NodeStatus(phase=99)))  # type: ignore[arg-type]


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown command None"):
        unpack_command(pb.Command(leader_epoch=1))


def test_a_newer_release_may_say_more() -> None:
    known = pb.AgentMessage(node_id="n0", status=pb.NodeStatus(generation=3))
    later = known.SerializeToString() + b"\xa2\x06\x03abc"
    assert unpack_agent(pb.AgentMessage.FromString(later)) == NodeStatus("n0", 3)


@given(st.text(st.sampled_from("a\u00e9\ud800\udcff\U0001f600\0"), max_size=10))
def test_text_that_is_no_unicode_is_told_all_the_same(odd: str) -> None:
    """A file name or a worker's error may hold what UTF-8 cannot: it must not keep the news from arriving."""
    end = RankExit(0, 1, 2, 3, 0.0, odd, odd, odd)
    status = NodeStatus("n0", 1, RunPhase.FAILED, (end,), leaving_reason=odd, start_error=odd)
    back = unpack_agent(pb.AgentMessage.FromString(pack_status(status, 1).SerializeToString()))
    assert isinstance(back, NodeStatus)
    assert back.exits[0].exit_code == 3
    for command in (Abort(1, "x", odd), End("failed", 1, "x", odd, (Failure("h", end),)), Wait(odd)):
        assert type(unpack_command(pack_command(command, 1))) is type(command)


def test_a_status_of_many_failed_ranks_fits_into_a_message() -> None:
    ends = tuple(RankExit(i, i, i, 1, 0.0, "/tmp/e", "m", "x" * (32 << 10)) for i in range(512))
    message = pack_status(NodeStatus("n0", 1, RunPhase.FAILED, ends), 1)
    assert message.ByteSize() < MAX_MESSAGE
    back = unpack_agent(message)
    assert isinstance(back, NodeStatus)
    assert len(back.exits) == 512
    assert back.exits[0] == ends[0]
    assert back.exits[511].exit_code == 1


def test_an_end_of_many_failed_ranks_fits_into_a_message() -> None:
    end = RankExit(0, 0, 1, 1, 0.0, "/tmp/e", "m", "x" * (32 << 10))
    command = End("failed", 1, "rank_failed", "r", (Failure("h", end),) * 1000)
    assert pack_command(command, 1).ByteSize() < MAX_MESSAGE
