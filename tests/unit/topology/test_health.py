"""From samples to what is wrong with a port: begins when it must, ends when it may, and never on a counter's reset."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from elaunch.links import CONGESTED, DOWN, ERRORS, FLAPPING, SLOW, PortReport
from elaunch.topology.counters import PortSample
from elaunch.topology.health import Health, delta
from elaunch.topology.limits import FLAP_WINDOW, SETTLE, WINDOW
from elaunch.topology.machine import PortState

UP = PortSample("p0", PortState.ACTIVE, "LinkUp", 400.0, {})
GONE = PortSample("p0", present=False)
FALLEN = replace(UP, state=PortState.DOWN, phys_state="Polling", rate=40.0)


class Watch:
    """One node whose port p0, that local ranks 0 and 1 use, is sampled once a second."""

    def __init__(self, *others: PortSample) -> None:
        self.health = Health()
        self.others = others
        self.now = 100.0

    def see(self, seen: PortSample = UP, *, after: float = 1.0, **counters: int) -> PortReport:
        self.now += after
        samples = (replace(seen, counters={**seen.counters, **counters}), *self.others)
        users = {s.port: (0, 1) for s in samples}
        return self.health.observe(self.now, samples, users)[0]


def codes(report: PortReport) -> list[str]:
    return [trouble.code for trouble in report.troubles]


def test_a_port_that_is_well_has_figures_and_no_trouble() -> None:
    watch = Watch()
    watch.see(tx_bytes=1000, rx_bytes=0, symbol_error=10**9)
    report = watch.see(after=2.0, tx_bytes=5000, rx_bytes=10, symbol_error=10**9)
    assert report == PortReport("p0", (0, 1), PortState.ACTIVE, "LinkUp", 400.0, 2000.0, 5.0)


def test_down_and_up_again() -> None:
    watch = Watch()
    watch.see()
    report = watch.see(FALLEN)
    assert [(t.code, t.text) for t in report.troubles] == [(DOWN, "is down (Polling)")]
    assert report.rate is None  # 40 Gbit/s is what the adapter says of a link that is not there
    assert codes(watch.see()) == [DOWN]
    assert codes(watch.see(after=SETTLE)) == []


def test_a_port_that_was_down_from_the_start_is_told() -> None:
    assert codes(Watch().see(FALLEN)) == [DOWN]
    init = Watch().see(replace(UP, state=PortState.INIT))
    assert "subnet manager" in init.troubles[0].text


def test_down_between_two_samples() -> None:
    for counter, by in (("link_downed", 1), ("carrier_changes", 2), ("carrier_down_count", 1)):
        watch = Watch()
        watch.see(**{counter: 5})
        assert codes(watch.see(**{counter: 5 + by})) == [DOWN]
        assert codes(watch.see(after=SETTLE, **{counter: 5 + by})) == []


def test_one_fall_is_counted_once() -> None:
    """State, carrier and counter tell of it at different moments."""
    watch = Watch()
    watch.see(link_downed=0, carrier_changes=2)
    watch.see(FALLEN, link_downed=0, carrier_changes=3)
    watch.see(FALLEN, link_downed=1, carrier_changes=3)
    watch.see(link_downed=1, carrier_changes=4)
    watch.see(FALLEN, link_downed=2, carrier_changes=5)
    assert codes(watch.see(link_downed=2, carrier_changes=6)) == [DOWN]
    report = watch.see(FALLEN, link_downed=3, carrier_changes=7)
    assert codes(report) == [FLAPPING]
    assert "3 times in 10 min" in report.troubles[0].text
    assert "is down now" in report.troubles[0].text


def test_a_port_that_stays_down_does_not_flap_for_ever() -> None:
    watch = Watch()
    watch.see()
    for _ in range(3):
        watch.see(FALLEN)
        watch.see()
    assert codes(watch.see()) == [FLAPPING]
    watch.see(FALLEN)
    assert codes(watch.see(FALLEN, after=FLAP_WINDOW)) == [DOWN]


def test_flapping_ends() -> None:
    watch = Watch()
    watch.see(link_downed=0)
    assert codes(watch.see(link_downed=3)) == [FLAPPING]
    assert codes(watch.see(link_downed=3, after=FLAP_WINDOW - 1)) == [FLAPPING]
    assert codes(watch.see(link_downed=3)) == []


def test_a_device_that_vanishes_is_down_and_one_that_never_was_there_is_not() -> None:
    watch = Watch()
    assert codes(watch.see(GONE)) == []
    watch.see()
    assert "sysfs has no such port" in watch.see(GONE).troubles[0].text


def test_a_state_that_cannot_be_read_is_no_news() -> None:
    watch = Watch()
    watch.see()
    assert codes(watch.see(replace(UP, state=PortState.UNKNOWN))) == []
    watch.see(FALLEN)
    assert codes(watch.see(replace(UP, state=PortState.UNKNOWN))) == [DOWN]


def test_errors_that_may_not_be_and_errors_by_their_rate() -> None:
    watch = Watch()
    watch.see(local_link_integrity_errors=3, symbol_error=0)
    report = watch.see(local_link_integrity_errors=4, symbol_error=599)
    assert codes(report) == [ERRORS]
    assert "local_link_integrity_errors" in report.troubles[0].text
    assert "symbol_error" not in report.troubles[0].text
    assert report.rose == {"local_link_integrity_errors": 1, "symbol_error": 599}
    report = watch.see(local_link_integrity_errors=4, symbol_error=600)
    assert "600 symbol errors in 60 s (symbol_error)" in report.troubles[0].text


def test_errors_end_with_some_reserve() -> None:
    watch = Watch()
    watch.see(symbol_error=0)
    assert codes(watch.see(symbol_error=700)) == [ERRORS]
    watch.see(symbol_error=1100, after=30.0)
    assert codes(watch.see(symbol_error=1100, after=31.0)) == [ERRORS]  # 400 in the window: more than half
    assert codes(watch.see(symbol_error=1100, after=30.0)) == []
    assert codes(watch.see(symbol_error=1500)) == []  # 400 again, and too few to begin with


def test_a_link_that_lost_lanes() -> None:
    watch = Watch()
    watch.see()
    watch.see()
    report = watch.see(replace(UP, rate=200.0))
    assert [(t.code, t.text) for t in report.troubles] == [(SLOW, "runs at 200 Gbit/s, and ran at 400 before")]
    assert codes(watch.see()) == [SLOW]  # a rate that comes and goes is not told each time
    assert codes(watch.see(after=SETTLE)) == []


def test_a_rate_that_was_told_only_once_is_none_to_fall_from() -> None:
    """Else a port would be slow, and left out, for as long as its agent lives."""
    watch = Watch()
    watch.see()
    watch.see(replace(UP, rate=800.0))
    assert [codes(watch.see()) for _ in range(3)] == [[]] * 3


def test_slower_than_most_of_its_node() -> None:
    others = tuple(replace(UP, port=f"p{n}") for n in (1, 2, 3))
    report = Watch(*others).see(replace(UP, rate=100.0))
    assert [t.text for t in report.troubles] == ["runs at 100 Gbit/s; 3 of the 4 watched on this node run at 400"]
    assert codes(Watch(others[0]).see(replace(UP, rate=100.0))) == []  # of two nobody knows which is right
    even = (others[0], replace(UP, port="p2", rate=100.0), replace(UP, port="p3", rate=200.0))
    assert codes(Watch(*even).see(replace(UP, rate=100.0))) == []


def test_congestion() -> None:
    gb = 10**9
    watch = Watch()
    watch.see(tx_bytes=0, port_xmit_wait=0)
    report = watch.see(tx_bytes=gb, port_xmit_wait=gb // 2)
    assert [t.text for t in report.troubles] == [
        "is congested: could not send for 67% of the time in which it had something to send"
    ]
    assert codes(watch.see(tx_bytes=4 * gb, port_xmit_wait=gb // 2)) == [CONGESTED]
    assert codes(watch.see(tx_bytes=8 * gb, port_xmit_wait=gb // 2)) == []
    idle = Watch()
    idle.see(tx_bytes=0, port_xmit_wait=0)
    assert codes(idle.see(tx_bytes=1000, port_xmit_wait=gb)) == []  # nothing to speak of was sent
    marked = Watch()
    marked.see(rp_cnp_handled=0)
    assert codes(marked.see(rp_cnp_handled=60_000)) == [CONGESTED]
    assert codes(marked.see(rp_cnp_handled=60_000, after=WINDOW)) == []


def test_a_counter_that_is_reset_is_no_error() -> None:
    watch = Watch()
    watch.see(symbol_error=10**6, link_downed=9, rx_bytes=10**12)
    report = watch.see(symbol_error=0, link_downed=0, rx_bytes=100)
    assert (codes(report), report.rose, report.received) == ([], {}, 100.0)


def test_a_counter_that_comes_late_or_goes_is_no_error() -> None:
    watch = Watch()
    watch.see()
    assert codes(watch.see(symbol_error=10**6)) == []
    assert codes(watch.see()) == []
    assert codes(watch.see(symbol_error=10**6 + 700)) == [ERRORS]


def test_what_happened_while_nobody_looked_is_no_news() -> None:
    watch = Watch()
    watch.see(symbol_error=0)
    assert codes(watch.see(after=2 * WINDOW, symbol_error=10**6)) == []
    assert codes(watch.see(symbol_error=10**6 + 600)) == [ERRORS]


values = st.integers(0, 2**64)


@given(values, values, st.sampled_from([0, 2**32, 2**34]))
def test_no_counter_ever_falls(before: int, now: int, wrap: int) -> None:
    rise = delta(before, now, wrap)
    assert rise >= 0
    assert rise == now - before if now >= before else rise in (now, wrap - before + now)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**29))
def test_a_counter_that_begins_anew_by_itself(before: int, by: int) -> None:
    after = (before + by) % 2**32
    rise = delta(before, after, 2**32)
    assert rise == by or after < before  # never too little where it is seen to wrap
    if before >= 3 * 2**30:
        assert rise == by


@given(st.lists(st.dictionaries(st.sampled_from(["symbol_error", "tx_bytes", "link_downed"]), values), max_size=12))
def test_whatever_counters_say_no_rate_is_below_zero(seen: list[dict[str, int]]) -> None:
    watch = Watch()
    for counters in seen:
        report = watch.see(**counters)
        assert (report.sent or 0.0) >= 0
        assert all(rise > 0 for rise in report.rose.values())


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=10))
def test_resets_alone_are_no_trouble(highest: list[int]) -> None:
    """A counter that falls to 0 again and again has counted nothing."""
    watch = Watch()
    for value in highest:
        watch = Watch()
        watch.see(symbol_error=value, local_link_integrity_errors=value)
        assert codes(watch.see(symbol_error=0, local_link_integrity_errors=0)) == []
