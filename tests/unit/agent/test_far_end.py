"""How the far end of a connection by ssh ends its agent: with all of the grace, and no more than that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from elaunch.agent import far_end
from elaunch.agent.far_end import Line
from elaunch.hosts.words import BEAT, Order

_SAVES = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("begun", flush=True)
signal.sigwait([signal.SIGTERM])
print("told", flush=True)
sys.exit(int(sys.stdin.readline()))
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in far_end._PASSED_ON}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def _agent() -> subprocess.Popen[bytes]:
    agent = subprocess.Popen([sys.executable, "-c", _SAVES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"begun\n"
    return agent


def _order(silence: float, grace: float) -> Order:
    return Order((), {}, "/", silence, grace)


def test_a_connection_that_breaks_after_a_silence_takes_nothing_of_the_grace() -> None:
    read, write = os.pipe()
    with _agent() as agent:

        def break_and_save() -> None:
            assert agent.stdout is not None
            assert agent.stdin is not None
            agent.stdout.readline()  # it was told to end, after the silence
            os.close(write)
            with pytest.raises(subprocess.TimeoutExpired):
                agent.wait(0.3)
            agent.stdin.write(b"7\n")
            agent.stdin.flush()

        saving = threading.Thread(target=break_and_save)
        saving.start()
        code = far_end._see_to(agent, Line(read), _order(silence=0.05, grace=30.0))
        saving.join()
    os.close(read)
    assert code == 7


def test_a_word_that_comes_too_late_gives_no_more_grace() -> None:
    read, write = os.pipe()
    with _agent() as agent:
        over = threading.Event()

        def beat() -> None:
            assert agent.stdout is not None
            agent.stdout.readline()
            while not over.wait(0.02):
                os.write(write, BEAT)

        beating = threading.Thread(target=beat)
        beating.start()
        code = far_end._see_to(agent, Line(read), _order(silence=0.3, grace=0.5))
        over.set()
        beating.join()
    os.close(read)
    os.close(write)
    assert code == 137
