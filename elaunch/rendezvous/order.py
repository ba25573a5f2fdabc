"""What the keeper of an embedded etcd is started with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from elaunch.rendezvous.child import Quarters
from elaunch.rendezvous.tls import Tls


@dataclass(frozen=True, slots=True)
class Order:
    """What a keeper's first agent asks for. ``grace`` is in seconds; ``agent`` and ``keep_open`` are inherited.

    ``tls`` are the paths of a :class:`Tls`. ``others`` is where clients connect of the cluster that this member joins.
    """

    job: str
    directory: str
    listen: tuple[str, ...]
    endpoint: str
    disposable: bool
    meeting: str
    grace: float
    agent: int
    keep_open: tuple[int, ...]
    tls: tuple[str, ...] = ()
    peer: str = ""
    listen_peer: str = ""
    cluster: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def quarters(self) -> Quarters:
        endpoint = self.endpoint if self.peer else ""
        return Quarters(self.listen, endpoint, self.listen_peer, self.peer, self.cluster, Tls.of(self.tls))

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Order:
        values: dict[str, Any] = json.loads(text)
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists})
