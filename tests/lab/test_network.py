"""The laboratory's ground: several at once, and nothing left behind, however whoever made it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elaunch.lab import reaper
from tests.e2e.harness import ROOT, gone, wait_until
from tests.lab.network import Network, ip

_HOLD = """
import subprocess
from elaunch.lab import Network
net = Network(1, others=("x",)).__enter__()
inside = subprocess.Popen([*net.at(1), "sleep", "600"], start_new_session=True)
net.impair(1, 0, {"loss": 0.5}, {})
print(net.name, net.folder, inside.pid, net.ground.process.pid, flush=True)
input()
"""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("reaper_too", [False, True])
def test_what_a_killed_run_left_behind_is_taken_away(three: Network, reaper_too: bool) -> None:
    """By its reaper; where that was killed as well, by whoever gets the same ground next."""
    argv = [sys.executable, "-c", _HOLD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        name, folder, inside, reaping = process.stdout.readline().split()
        there = [ip("netns", "list"), ip("link", "show")]
        if reaper_too:
            os.kill(int(reaping), signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    assert all(name in text for text in there)
    if reaper_too:
        wait_until("the reaper's end", lambda: gone(int(reaping)))
        assert name in ip("netns", "list")
        reaper.take_away(name, folder)  # as the next on this ground begins
    wait_until("nothing is left", lambda: name not in ip("netns", "list") + ip("link", "show"))
    wait_until("its process is gone", lambda: gone(int(inside)))
    wait_until("its files are gone", lambda: not Path(folder).exists())
    assert three.host(1) in ip("netns", "list"), "the present run's stay"


def test_several_at_once_do_not_meet(three: Network) -> None:
    with Network(1) as one, Network(1) as other:
        assert len({net.name for net in (one, other, three)}) == 3
        assert len({net.control(1) for net in (one, other, three)}) == 3
        one.run(1, "link", "set", "nic0", "down")
        wait_until("the other's is up", lambda: "state UP" in other.run(1, "link", "show", "nic0"))
    left = ip("netns", "list") + ip("link", "show")
    assert one.name not in left
    assert other.name not in left
