"""Stores that a program opens itself.

With ``TORCHELASTIC_USE_AGENT_STORE=True`` torch makes every rank a client, at whatever port the program
names; at any port but the agent's nobody serves, and the program hangs. There, rank 0 serves, as it does
without a launcher.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def allow_own_stores(agent_port: str) -> None:
    """Have ``init_process_group("tcp://host:port")`` serve a store at any port but ``agent_port``."""
    import torch.distributed.rendezvous as rendezvous

    of_torch = getattr(rendezvous, "_create_c10d_store", None)
    if of_torch is None or hasattr(of_torch, "elaunch"):
        return

    def create(
        hostname: str, port: int, rank: int, world_size: int, timeout: timedelta, *rest: Any, **more: Any
    ) -> Any:
        if str(port) == agent_port or not rendezvous._torchelastic_use_agent_store():
            return of_torch(hostname, port, rank, world_size, timeout, *rest, **more)
        use_libuv = rest[0] if rest else more.get("use_libuv", True)
        return rendezvous.TCPStore(
            host_name=hostname,
            port=port,
            world_size=world_size,
            is_master=rank == 0,
            timeout=timeout,
            multi_tenant=True,
            use_libuv=use_libuv,
        )

    create.elaunch = True  # type: ignore[attr-defined]
    rendezvous._create_c10d_store = create
