"""torch's local watchdog timers: what is armed, and who is ended, over a real pipe."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elaunch.agent.timers import Timer, Timers, parse
from elaunch.agent.watchdog import ENABLE, FILE, Watchdog, watchdog
from elaunch.errors import UsageError

KILL = int(signal.SIGKILL)


def line(pid: int, scope: str, expires: float, signum: int = KILL) -> bytes:
    """As torch.distributed.elastic.timer.FileTimerRequest writes it."""
    wish = {"version": 1, "pid": pid, "scope_id": scope, "expiration_time": expires, "signal": signum}
    return json.dumps(wish).encode() + b"\n"


def test_a_request_is_read() -> None:
    assert parse(line(7, "step", 12.5)) == Timer(7, "step", 12.5, KILL)


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"pid": null}', line(0, "s", 1.0), line(-1, "s", 1.0)])
def test_a_bad_request_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)


def test_timers_are_armed_anew_and_released() -> None:
    timers = Timers()
    assert timers.next is None
    timers.take(Timer(1, "a", 10.0, KILL))
    timers.take(Timer(1, "a", 20.0, KILL))
    timers.take(Timer(2, "a", 15.0, KILL))
    assert timers.next == 15.0
    assert timers.expired(14.9) == []
    assert timers.expired(15.0) == [Timer(2, "a", 15.0, KILL)]
    timers.take(Timer(1, "a", -1.0, 0))
    timers.take(Timer(9, "never armed", -1.0, 0))
    assert timers.next is None


def test_the_first_timer_with_a_signal_counts() -> None:
    timers = Timers()
    timers.take(Timer(1, "late", 3.0, KILL))
    timers.take(Timer(1, "silent", 1.0, 0))
    timers.take(Timer(1, "first", 2.0, 15))
    timers.take(Timer(1, "far", 100.0, 15))
    assert timers.expired(5.0) == [Timer(1, "first", 2.0, 15)]
    assert timers.next is None


def test_only_the_worker_that_asked_for_it_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    path.touch()  # what mkstemp leaves

    async def main(late: subprocess.Popen[bytes], good: subprocess.Popen[bytes]) -> tuple[int, int | None, str]:
        dog = watchdog({ENABLE: "1", FILE: str(path)})
        assert dog is not None
        with dog.listening():
            soon = time.time() + 0.2
            with path.open("wb") as pipe:
                pipe.write(b"nonsense\n" + line(good.pid, "x", soon) + line(os.getpid(), "not a worker", soon))
                pipe.write(line(late.pid, "step 3", soon, signal.SIGTERM) + line(good.pid, "x", -1, 0))
            code = await asyncio.to_thread(late.wait, 20)
            await asyncio.sleep(0.1)
            still = good.poll()
            good.kill()
            return code, still, dog.why(late.pid) + dog.why(good.pid)

    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleep) as late, subprocess.Popen(sleep) as good:
        result = asyncio.run(main(late, good))
    assert result == (-signal.SIGTERM, None, "the watchdog timer 'step 3' expired")
    assert not path.exists()


def test_a_file_with_contents_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine")

    async def main() -> None:
        with Watchdog(path).listening():
            pass

    with pytest.raises(UsageError, match="something else than a pipe"):
        asyncio.run(main())
    assert path.read_text() == "mine"
    with pytest.raises(UsageError, match=f"{FILE}={tmp_path}/none/pipe: No such file"):
        asyncio.run(listen_at(tmp_path / "none" / "pipe"))


async def listen_at(path: Path) -> None:
    with Watchdog(path).listening():
        pass


@pytest.mark.parametrize("env", [{}, {ENABLE: "0"}, {FILE: "/somewhere"}])
def test_there_is_none_unless_asked_for(env: dict[str, str]) -> None:
    assert watchdog(env) is None
