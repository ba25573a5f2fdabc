"""How jobs are started: whoever interrupts it in the middle finds a job that is known."""

from __future__ import annotations

import signal
import threading

import pytest

from elaunch.qualify.running import uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_waits_for_the_end_of_a_start(number: signal.Signals) -> None:
    done = []

    def interrupt(which: int, _: object) -> None:
        done.append(f"interrupted by {signal.Signals(which).name}")
        raise KeyboardInterrupt

    def start() -> None:
        with uninterrupted():
            signal.raise_signal(number)
            done.append("started")

    before = signal.signal(number, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert done == ["started", f"interrupted by {number.name}"]
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)


def test_elsewhere_than_in_the_main_thread_nobody_is_interrupted() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            done.append("started")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert done == ["started"]
