"""A stranger on a host, who asks without knowing a job's secret."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.harness import ROOT
from tests.lab.network import Network

_ASK = """
import socket, sys
from elaunch.topology.probe.datagram import question
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.settimeout(0.5)
    for secret in (b"", b"guessed"):
        sock.sendto(question("probe-0", secret, b"12345678"), (sys.argv[1], int(sys.argv[2])))
    try:
        sock.recv(2048)
    except TimeoutError:
        print("nothing")
"""


def unanswered(net: Network, number: int, address: str, port: int) -> bool:
    """Whether nothing comes back on host ``number`` from ``address``."""
    argv = [*net.at(number), sys.executable, "-c", _ASK, address, str(port)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True, env={"PYTHONPATH": str(ROOT)})
    return done.stdout.strip() == "nothing"
