"""What an agent works with while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elaunch.agent.events import EventLog
from elaunch.agent.group import Group
from elaunch.agent.inject_pages import InjectPages
from elaunch.agent.links import LinkWatch
from elaunch.agent.mailbox import Mailbox
from elaunch.agent.pulse import Pulse
from elaunch.agent.status import StatusBoard
from elaunch.agent.store import Backend
from elaunch.agent.witness import Witness
from elaunch.controller.server import ControlServer
from elaunch.deadline_page import DeadlinePage

if TYPE_CHECKING:
    from elaunch.agent.reachability import Reachability


@dataclass(frozen=True, slots=True)
class Parts:
    """What an agent is made of. ``address`` is this node's, ``control`` where its control server is reached.

    ``topology`` is the digest of the machine, ``picture`` shows it. ``deadline_passed`` is set when the dead-man's
    switch has killed the ranks. ``farewell`` is the file from which a farewell process reads what to do, should the
    agent be killed. ``inject_pages`` is None where no fault may be injected.
    """

    backend: Backend
    server: ControlServer
    address: str
    control: str
    group: Group
    pulse: Pulse
    board: StatusBoard
    page: DeadlinePage
    deadline_passed: asyncio.Event
    farewell: Path
    events: EventLog
    witnesses: Callable[[], list[Witness]]
    mailbox: Mailbox
    topology: str
    reachability: Reachability | None
    links: LinkWatch
    inject_pages: InjectPages | None
    picture: str = ""
