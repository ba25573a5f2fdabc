"""What a laboratory, which is root's, does and does not touch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from elaunch.lab.etcd import EtcdMember


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait(10)


def test_a_pid_that_was_reaped_is_not_the_member_s_any_more(bystander: subprocess.Popen[bytes]) -> None:
    """A member that ended, as of a full disk, and whose end was seen: another process may have its pid."""
    ended: Any = subprocess.Popen(["true"])
    ended.wait(10)
    ended.pid = bystander.pid
    member = EtcdMember(None, "e1", ("e1",), ended)  # type: ignore[arg-type]
    member.freeze()
    assert psutil.Process(bystander.pid).status() != psutil.STATUS_STOPPED
    member.kill()
    assert bystander.poll() is None
    assert member.process is None
