"""One more member of a job's etcd on this host: where it could be, started, or left behind by an earlier agent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from elaunch.errors import StartError
from elaunch.rendezvous.addresses import bindable, free_port, join, own_loopback
from elaunch.rendezvous.handshake import names
from elaunch.rendezvous.hiring import GRACE, EmbeddedEtcd, ask, embedded, hire, made_directory
from elaunch.rendezvous.home import Meeting, default_state_dir
from elaunch.rendezvous.order import Order
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.trio_view import Berth, MemberList


async def adopt_embedded(job: str, address: str, port: int) -> EmbeddedEtcd | None:
    """The member of ``job`` that an earlier agent of this host has left behind at ``port``, if there is one."""
    talk: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    try:
        talk = await asyncio.open_unix_connection(str(Meeting(port, own_loopback(address)).socket))
        answer = await ask(talk, job)
    except (ConnectionError, FileNotFoundError):
        return None
    if "endpoint" not in answer:
        talk[1].close()
        return None
    return embedded(answer, talk)


async def join_embedded(
    job: str, berth: Berth, listed: MemberList, *, state_dir: Path | None = None, tls: Tls | None = None
) -> EmbeddedEtcd:
    """Start the member that the cluster of ``listed`` has taken in for ``berth``.

    Raises ElaunchError where it cannot be started.
    """
    listen_at = bindable(berth.address)
    port, peer_port = (int(text.rpartition(":")[2]) for text in (berth.endpoint, berth.peer))
    meeting = Meeting(port, own_loopback(berth.address))
    lock = meeting.try_lock()
    if lock is None:
        raise StartError(f"another etcd of this host has port {port}")
    try:
        directory = made_directory(state_dir or default_state_dir(job, port, berth.address))
        order = Order(
            job=job,
            directory=str(directory),
            listen=(join(listen_at, port),),
            endpoint=berth.endpoint,
            disposable=False,
            meeting=str(meeting.socket),
            grace=GRACE,
            agent=0,
            keep_open=(lock,),
            tls=tls.paths if tls is not None else (),
            peer=berth.peer,
            listen_peer=join(listen_at, peer_port),
            cluster=listed.peers,
            others=listed.endpoints,
        )
        return await hire(order)
    finally:
        os.close(lock)  # the keeper has its own


def offer(node_id: str, address: str, port: int, tls: Tls | None = None) -> Berth:
    """Where a node could keep a member, at ``port`` if that is free, else at any; or why it cannot. Raises OSError."""
    if tls is not None and not names(tls, address):
        return Berth(node_id, address, "", "", f"the certificate {tls.cert} does not name {address}")
    listen_at = bindable(address)
    client = free_port(listen_at, port)
    peer = next(free for _ in range(10) if (free := free_port(listen_at)) != client)
    scheme = "http" if tls is None else "https"
    return Berth(node_id, address, f"{scheme}://{join(address, peer)}", join(address, client))
