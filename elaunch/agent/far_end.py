"""The far end of a connection by ssh: starts this host's agent, and ends it when nobody is heard any more.

Nothing may be left on a host when the machine from which the job was started goes away, however that happens. A
connection that breaks ends standard input; a machine that lost its power says nothing more, which shows after a
while. Should this process be killed, the kernel kills the agent, and an agent takes its ranks along.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from elaunch import __version__
from elaunch.agent.trees import die_with
from elaunch.hosts.words import Hello, Order, end_line, hello_line, read_order, read_signal

_ORDER_SECONDS = 300.0  # all hosts are reached before any gets its order
_GOING = 10.0  # seconds from SIGKILL to the end
_MOST = 16 * 1024 * 1024  # bytes of an order
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Line:
    """The words that come down, line by line."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._held = b""
        self.open = True

    def lines(self) -> list[bytes]:
        """Read once; what has come in whole. At the end of input, or beyond all bounds, it is not ``open`` any more."""
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        *whole, self._held = (self._held + data).split(b"\n")
        self.open = bool(data) and len(self._held) <= _MOST
        return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Greet, take the order, see to the agent until it ends; its exit code."""
    nonce, *ports = sys.argv[1:] if argv is None else argv
    _say(hello_line(nonce, _hello([int(port) for port in ports])))
    down = Line(0)
    order = _await_order(down)
    if order is None:
        return 1
    try:
        agent = _start(order)
    except OSError as error:
        sys.stderr.write(f"elaunch: error: the agent could not be started here: {error}\n")
        _say(end_line(nonce, 71))
        return 71
    code = _see_to(agent, down, order)
    _say(end_line(nonce, code))
    return code


def _hello(ports: Sequence[int]) -> Hello:
    connection = os.environ.get("SSH_CONNECTION", "").split()
    peer, address = (connection[0], connection[2]) if len(connection) == 4 else ("", "")
    return Hello(socket.gethostname(), __version__, address, peer, tuple(port for port in ports if _free(port)))


def _free(port: int) -> bool:
    family, any_address = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((any_address, port))
    except OSError:
        return False
    return True


def _await_order(down: Line) -> Order | None:
    deadline = time.monotonic() + _ORDER_SECONDS
    poll = select.poll()
    poll.register(down.fd, select.POLLIN)
    while down.open and (left := deadline - time.monotonic()) > 0:
        if not poll.poll(left * 1000):
            break
        for line in down.lines():
            if line.strip():
                return read_order(line)
    return None


def _start(order: Order) -> subprocess.Popen[bytes]:
    own = os.getpid()
    return subprocess.Popen(
        [sys.executable, "-m", "elaunch", *order.arguments],
        cwd=order.directory,
        env={**os.environ, **order.environment},
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: die_with(own),
    )


def _see_to(agent: subprocess.Popen[bytes], down: Line, order: Order) -> int:
    for signum in _PASSED_ON:
        signal.signal(signum, lambda number, _: agent.send_signal(number))
    gone = os.pidfd_open(agent.pid)
    poll = select.poll()
    poll.register(down.fd, select.POLLIN)
    poll.register(gone, select.POLLIN)
    deadline = time.monotonic() + order.silence
    ending = False
    while True:
        events = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
        if gone in events:
            os.close(gone)
            return _code(agent.wait())
        if down.fd in events:
            for line in down.lines():
                _pass_on(agent, read_signal(line))
            if not down.open:
                poll.unregister(down.fd)
            elif not ending:
                deadline = time.monotonic() + order.silence
        heard = down.open or ending  # who is heard of again, or is gone for good, changes nothing about the grace
        if heard and time.monotonic() < deadline:
            continue
        if ending:
            os.close(gone)
            return _killed(agent)
        ending, deadline = True, time.monotonic() + order.grace  # nobody is there any more
        agent.terminate()


def _killed(agent: subprocess.Popen[bytes]) -> int:
    """One that hangs in the kernel is left behind."""
    agent.kill()
    try:
        return _code(agent.wait(_GOING))
    except subprocess.TimeoutExpired:
        return 128 + signal.SIGKILL


def _code(ended: int) -> int:
    return ended if ended >= 0 else 128 - ended


def _pass_on(agent: subprocess.Popen[bytes], name: str) -> None:
    if name in signal.Signals.__members__:
        agent.send_signal(signal.Signals[name])


def _say(line: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody is there to hear it
        os.write(1, line)


if __name__ == "__main__":
    sys.exit(main())
