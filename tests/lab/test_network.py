"""The lab itself: what a killed test run leaves behind is taken away by the next."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.e2e.harness import ROOT
from tests.lab.network import Network, ip, sweep

_HOLD = """
from tests.lab.network import Network
net = Network(1).__enter__()
print(net.name, flush=True)
input()
"""

pytestmark = pytest.mark.slow


def test_what_a_killed_run_left_behind_is_taken_away(three: Network) -> None:
    argv = [sys.executable, "-c", _HOLD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        there = [ip("netns", "list"), ip("link", "show")]
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    assert name
    assert all(name in text for text in there)
    sweep()
    assert name not in ip("netns", "list") + ip("link", "show")
    assert three.host(1) in ip("netns", "list"), "the present run's stay"
