"""The spawner process from its first import to its last act: gets warm, serves the agent, says farewell for it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from elaunch.agent import children, trees
from elaunch.agent.nursery import Nursery
from elaunch.agent.protocol import Channel
from elaunch.agent.starting import Run
from elaunch.agent.warmth import Warmth
from elaunch.deadline_page import DeadlinePage
from elaunch.parent import wake_when_parent_ends


def main(argv: Sequence[str], bare: frozenset[str]) -> Run | None:
    """Body of the spawner process. Returns what a forked child has to run, None in the process itself."""
    environment = dict(os.environ)
    dispositions = children.Dispositions.ignore()
    trees.become_subreaper()
    wake_when_parent_ends()
    channel = Channel(socket.socket(fileno=int(argv[0])))
    page = DeadlinePage(int(argv[1]))
    os.set_inheritable(channel.fileno(), False)
    os.set_inheritable(page.fd, False)
    warm = None
    if argv[2] == "warm":
        try:
            children.warm_up(("torch", *argv[3:-1]))
        except Exception as error:  # noqa: BLE001 - a user's module may raise anything
            channel.send({"event": "failed", "text": f"{type(error).__name__}: {error}"})
            sys.exit(1)
        dispositions = dispositions.ignore_again()
        warm = Warmth.now(environment, bare)
    channel.send({"event": "ready"})
    nursery = Nursery(channel, page, warm, environment, dispositions)
    run = nursery.serve()
    if run is None and channel.eof and nursery.farewell:
        dispositions.restore()
        children.execute(list(nursery.farewell), nursery.farewell_environment)
    return run
