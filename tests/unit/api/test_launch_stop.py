"""What ends a launch before its job has ended: the agent is gone, and the caller hears of what it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

import elaunch
from elaunch.api import launching

STUBBORN = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {15, 2}); print(flush=True); signal.pause()"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_agent_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    monkeypatch.setattr(launching, "_MARGIN", 0.2)
    agent = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    assert agent.stdout is not None
    agent.stdout.readline()
    with pytest.raises(error), launching._ended(agent, elaunch.LaunchConfig(grace_period=0.0)):
        raise error
    assert agent.returncode == -9
    agent.stdout.close()
