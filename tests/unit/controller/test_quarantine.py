"""When a host is left out, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_makers import make_node

from elaunch.controller.job import Job
from elaunch.controller.mistrust import MOST_HOSTS, charged
from elaunch.controller.policy import Policy
from elaunch.controller.quarantine import QuarantinePolicy, by_operator, left_out, screen, with_fault
from elaunch.rendezvous.memory import Fault, HostRecord
from elaunch.rendezvous.records import Phase, Reason, decode, encode
from elaunch.rendezvous.state import State

NOW = 1e9
POLICY = QuarantinePolicy(faults=3, window=3600.0, duration=600.0, longest=2000.0)
CLEAN = HostRecord("gpu-07")


def fault(time: float, generation: int, code: str = "rank_fault") -> Fault:
    return Fault(time, generation, code, f"rank 3 fell in {generation}")


def faulty(*times: float, policy: QuarantinePolicy = POLICY) -> HostRecord:
    """After one fault at each of ``times``, each in a generation of its own."""
    record = CLEAN
    for generation, time in enumerate(times):
        record = stored(with_fault(policy, record, fault(time, generation)))
    return record


def stored(record: HostRecord) -> HostRecord:
    """As it comes back from the job's state."""
    (found,) = decode(State, encode(State(Phase.RUNNING, 1, 0, Reason("start", ""), hosts=(record,)))).hosts
    return found


def test_three_faults_within_the_window_put_a_host_away_with_reason_and_expiry() -> None:
    assert left_out(faulty(NOW, NOW + 60), NOW + 60) == ""
    record = faulty(NOW, NOW + 60, NOW + 120)
    assert left_out(record, NOW + 180) == (
        "host gpu-07 is in quarantine for 9 min more: 3 faults within 1 h; the last: rank 3 fell in 2"
    )
    assert left_out(record, NOW + 720) == ""


def test_faults_that_lie_further_apart_are_forgotten() -> None:
    assert faulty(NOW, NOW + 3000, NOW + 6000, NOW + 9000).until == 0
    assert faulty(NOW, NOW + 3000, NOW + 3500).until > 0


@pytest.mark.parametrize("code", ["code_error", "preemption", "crash_loop", "operator", "membership"])
def test_what_is_no_fault_of_the_host_does_not_count(code: str) -> None:
    assert with_fault(POLICY, CLEAN, fault(NOW, 1, code)) == CLEAN


def test_a_generation_counts_once() -> None:
    record = CLEAN
    for _ in range(9):
        record = with_fault(POLICY, record, fault(NOW, 5, "node_fault"))
    assert len(record.faults) == 1


def test_each_time_is_twice_as_long_up_to_a_limit() -> None:
    record, now, lengths = CLEAN, NOW, []
    for generation in range(12):
        record = with_fault(POLICY, record, fault(now, generation))
        if record.left(now):
            lengths.append(record.left(now))
            now = record.until
        now += 1
    assert lengths == [600, 1200, 2000, 2000]


def test_never() -> None:
    assert faulty(*(NOW + n for n in range(20)), policy=replace(POLICY, faults=0)).until == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.floats(-1e6, 1e6))
def test_leaders_with_other_clocks_make_no_quarantine_longer(jumps: list[float], later: float) -> None:
    record = faulty(*(NOW + jump for jump in jumps))
    assert record.left(NOW + later) <= POLICY.longest
    assert (left_out(record, NOW + later) == "") == (record.left(NOW + later) == 0)


def test_a_fault_that_lies_ahead_counts_as_now() -> None:
    """The leader of the first two had a clock that was a quarter of an hour ahead."""
    assert faulty(NOW + 900, NOW + 960, NOW).left(NOW) == 600


def test_an_operator_puts_away_for_as_long_as_he_says() -> None:
    record = by_operator(CLEAN, NOW, 7200.0, "fans are replaced")
    assert left_out(record, NOW + 3600) == "host gpu-07 is in quarantine for 1 h more: fans are replaced"
    assert with_fault(POLICY, record, fault(NOW, 1)).until == record.until


def test_an_unknown_member_is_passed_over_and_nonsense_refused() -> None:
    state = '{"phase":"running","generation":1,"restart_count":0,"reason":{"code":"c","text":"t"},"hosts":%s}'
    known = '[{"host":"a","faults":[{"time":1,"generation":2,"code":"c","text":"t","x":1}],"y":2}]'
    assert decode(State, (state % known).encode()).hosts == (HostRecord("a", (Fault(1, 2, "c", "t"),)),)
    for value in ("[[]]", "[{}]", '["x"]', '[{"host":"a","faults":[1]}]', '[{"host":"a","faults":[{}]}]'):
        with pytest.raises(ValueError, match="not a State"):
            decode(State, (state % value).encode())


# --- who may be used ----------------------------------------------------------------------------------------------

AWAY = {
    "h1": replace(faulty(NOW, NOW, NOW), host="h1"),
    "h2": replace(faulty(NOW + 9, NOW + 9, NOW + 9), host="h2"),
    "h3": replace(by_operator(CLEAN, NOW, 60.0, "asked for"), host="h3"),
}
NODES = [make_node(number) for number in range(5)]


def hosts(needed: int, policy: QuarantinePolicy = POLICY) -> list[str]:
    usable, why = screen(policy, AWAY, NODES, needed, NOW + 10)
    assert sorted([*why, *(node.host for node in usable)]) == [node.host for node in NODES]
    assert all(text.startswith(f"host {host} is in quarantine") for host, text in why.items())
    return [node.host for node in usable]


def test_hosts_in_quarantine_are_left_out_while_others_suffice() -> None:
    assert hosts(2) == ["h0", "h4"]


def test_a_host_that_is_needed_is_taken_back_whose_time_is_up_first() -> None:
    assert hosts(3) == ["h0", "h1", "h4"]
    assert hosts(4) == ["h0", "h1", "h2", "h4"]
    assert hosts(5) == ["h0", "h4"]  # not enough in any case
    assert hosts(3, replace(POLICY, strict=True)) == ["h0", "h4"]


def test_of_a_cloud_whose_hosts_never_come_again_only_the_last_ones_are_remembered() -> None:
    job = Job(Policy(1, 1, 0), hosts=(HostRecord("bad", until=1e9, code="faults", times=1),))
    for number in range(2 * MOST_HOSTS):
        blamed = replace(job, generation=number, reason=Reason("rank_failed", "it fell"), blamed=f"h{number}")
        job = charged(blamed, float(number))
    known = [record.host for record in job.hosts]
    assert len(known) == MOST_HOSTS
    assert (known[0], known[-1]) == ("bad", f"h{2 * MOST_HOSTS - 1}")
