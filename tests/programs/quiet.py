"""A program for tests that uses elaunch's few functions, without torch: ``quiet.py MODE``. What it prints is read."""

import atexit
import faulthandler
import os
import signal
import sys
import threading
import time

import elaunch


def fork() -> None:
    """Children forked all the time, each with a normal exit: they are no ranks, and end at once."""
    elaunch.step(1)
    with elaunch.section("forking", timeout=100):
        took = []
        for _ in range(50):
            began = time.monotonic()
            pid = os.fork()
            if pid == 0:
                elaunch.step(99)
                with elaunch.section("child"):
                    sys.exit(int(elaunch.should_stop()))
            _, status = os.waitpid(pid, 0)
            assert status == 0
            took.append(time.monotonic() - began)
        assert min(took) < 0.9  # where a child waited for a thread that it has not, all would take a second
        print("forked", flush=True)
        sys.stdin.readline()


def threads() -> None:
    """The thread is none of the program's, and takes none of its signals."""
    elaunch.step(1)
    assert threading.enumerate() == [threading.main_thread()]
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.2)
    assert not heard
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    assert heard
    print("well", flush=True)


def handled() -> None:
    """The program has a use for the signal itself."""
    signal.signal(signal.SIGRTMAX - 5, lambda *_: print("mine", flush=True))
    elaunch.step(1)
    print("ready", flush=True)
    sys.stdin.readline()


def broken() -> None:
    """The rank's thread meets what nobody thought of, and the program goes on."""
    elaunch.step(1)
    from elaunch.worker import progress

    if sys.stdin.readline() == "break\n":
        progress._watch._place = None
        print("broken", flush=True)
        sys.stdin.readline()
        elaunch.step(2)


def unbegun() -> None:
    """The rank's thread cannot even be started."""
    from elaunch.worker import progress

    progress.Place = None
    elaunch.step(1)
    elaunch.step(2)
    print("ready", flush=True)
    sys.stdin.readline()


def registered() -> None:
    """The program uses faulthandler for its own ends."""
    elaunch.step(1)
    faulthandler.enable(sys.stderr)
    faulthandler.register(signal.SIGUSR2, sys.stderr, all_threads=True)
    os.kill(os.getpid(), signal.SIGUSR2)
    print("ready", flush=True)
    sys.stdin.readline()


def become() -> None:
    """The program becomes another, which has no handler and no page."""
    elaunch.step(1)
    os.read(0, 1)
    os.execv("/bin/cat", ["cat"])


def leave() -> None:
    """It ends while another thread of its own still works, and what it has registered for the end runs."""
    elaunch.step(1)
    atexit.register(lambda: print("last", flush=True))
    threading.Thread(target=lambda: time.sleep(0.3 if sys.stdin.readline() else 0.0)).start()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    assert "torch" not in sys.modules
