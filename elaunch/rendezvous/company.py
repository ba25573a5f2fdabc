"""The other members of an embedded etcd, as the keeper of one of them knows them."""

from __future__ import annotations

import contextlib

from elaunch.rendezvous.home import SavedMembers
from elaunch.rendezvous.trio_view import MemberList


class Company:
    """What a member knows of the others. Without a ``peer`` of its own it will never have any."""

    def __init__(self, peer: str, saved: SavedMembers, several: bool) -> None:
        self.saved = saved
        self.several = several
        self.left = False
        self._peer = peer
        self._seated = several

    def note(self, listed: MemberList, cluster: int) -> tuple[str, ...]:
        """Take a newer list; the endpoints of it, if this is still one of the members."""
        if self._peer not in listed.peers:
            self.left = self._seated
            return ()
        self._seated, self.several = True, len(listed.peers) > 1
        if self.several:
            with contextlib.suppress(OSError):  # it only helps a later start to find the others
                self.saved.write(cluster, listed.endpoints)
        else:
            self.saved.forget()
        return listed.endpoints
