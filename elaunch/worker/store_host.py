"""The process that hosts a generation's store, on a socket that was listening before it started."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys


def host(listener: int, world_size: int) -> None:
    """Serve a TCPStore on the listening socket with that descriptor until this process is killed."""
    from torch.distributed import TCPStore

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # every rank connects, and whoever else can
    sock = socket.socket(fileno=listener)
    address, port = sock.getsockname()[:2]
    sock.detach()  # the store's from here on
    wildcards = {"0.0.0.0": "127.0.0.1", "::": "localhost"}
    # Held in a variable: the store lives as long as it does.
    store = TCPStore(
        wildcards.get(address, address),
        port,
        world_size,
        is_master=True,
        wait_for_workers=False,
        multi_tenant=True,
        master_listen_fd=listener,
    )
    _say_no_more()
    while store:
        signal.pause()


def _say_no_more() -> None:
    """From here on torch tells of every connection that breaks, and whoever reaches the port could fill the log."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


if __name__ == "__main__":
    del sys.path[0]  # this file's folder: its modules are not top-level ones
    host(int(sys.argv[1]), int(sys.argv[2]))
