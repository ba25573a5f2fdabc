"""What the cells about rails take for a proof, and what not."""

from __future__ import annotations

import pytest

from elaunch.qualify.rail_judging import Carried, check_alone, check_slow, check_told


def test_a_rail_that_is_not_slow_is_found() -> None:
    """A round takes a bit longer now and then: that is no slow rail."""
    check_slow(0.03, 0.63, Carried(0.5, 2.9e6), 40.0)
    with pytest.raises(AssertionError, match=r"carries 304\.0 Mbit/s, expected 40"):
        check_slow(0.030, 0.031, Carried(0.5, 38e6), 40.0)
    with pytest.raises(AssertionError, match="carries 0% of the traffic"):
        check_slow(0.03, 0.04, Carried(0.0, 0.0), 40.0)
    with pytest.raises(AssertionError, match=r"takes 0\.50 s with a slow rail, and 0\.60 s without"):
        check_slow(0.6, 0.5, Carried(0.5, 2.9e6), 40.0)


def test_a_rail_that_fails_is_no_other_reason() -> None:
    check_told("all_waiting", "all 2 ranks wait")
    with pytest.raises(AssertionError, match="told as restarted"):
        check_told("restarted", "an operator asked for it")


def test_a_port_that_is_only_mentioned_is_not_told_of() -> None:
    check_alone({"nic0"}, "rank 0: nic1 is down", "nic1 is down")
    with pytest.raises(AssertionError, match="nowhere is it told: nic1 is down"):
        check_alone({"nic0"}, "the map of NICs names software ports: nic0, nic1", "nic1 is down")
    with pytest.raises(AssertionError, match="have nic0, nic1, expected nic0 alone"):
        check_alone({"nic0", "nic1"}, "rank 0: nic1 is down", "nic1 is down")
