"""What a person is told of an endpoint that does not answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import pytest

from elaunch.errors import EndpointUnreachableError
from elaunch.rendezvous.causes import plain
from elaunch.rendezvous.etcd import EtcdStore
from tests.etcd.servers import free_port


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("n0:1: UNAVAILABLE: errors resolving n0:1: [Domain name not found]", "the name n0 is not known here"),
        ("n0:1: UNAVAILABLE: DNS resolution failed for n0:1", "the name n0 is not known here"),
        ("dns:1: UNAVAILABLE: ipv4:10.0.0.1:1: Connection refused", "nothing listens there"),
        ("n0:1: UNAVAILABLE: Failed to connect to remote host: No route to host", "no way leads there"),
        ("n0:1: DEADLINE_EXCEEDED: Deadline Exceeded", "nothing answers there"),
        ("n0:1: UNAVAILABLE: Failed to connect to remote host: Timeout occurred", "nothing answers there"),
        ("n0:1: UNAVAILABLE: Socket closed", "something else listens there, or it wants TLS"),
        ("n0:1: UNAVAILABLE: sendmsg: Broken pipe (32)", "something else listens there, or it wants TLS"),
        ("n0:1: UNAVAILABLE: Ssl handshake failed: WRONG_VERSION", "the TLS handshake failed; "),
        ("n0:1: INTERNAL: what nobody foresaw", "n0:1: INTERNAL: what nobody foresaw"),
    ],
)
def test_the_cause_in_plain_words(text: str, cause: str) -> None:
    assert plain(text).startswith(cause)


def told(*endpoints: str) -> str:
    async def run() -> str:
        store = EtcdStore(endpoints)
        try:
            with pytest.raises(EndpointUnreachableError) as lost:
                await store.check(timeout=1.0)
            return str(lost.value)
        finally:
            await store.close()

    return asyncio.run(run())


@pytest.mark.slow
def test_a_port_where_nobody_listens() -> None:
    port = free_port()
    assert told(f"127.0.0.1:{port}") == (
        f"rendezvous: etcd at 127.0.0.1:{port} did not answer within 1 s: nothing listens there"
    )
    last = told(f"127.0.0.1:{port}", "no.such.host.invalid:1").partition("within 1 s: ")[2]
    assert last in (
        f"127.0.0.1:{port}: nothing listens there",
        "no.such.host.invalid:1: the name no.such.host.invalid is not known here",
    )


def test_a_web_server_is_no_etcd() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return  # closed: the test is over
                with connection, suppress(OSError):  # the other end may be gone already
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            assert "something else listens there" in told(f"127.0.0.1:{server.getsockname()[1]}")
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
