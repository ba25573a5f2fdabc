"""Where etcd listens and how to show who we are."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from elaunch.errors import UsageError
from elaunch.rendezvous.tls import NAME, Tls


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One etcd address: ``host:port``, ``[v6]:port`` or ``unix:/path``, as the user wrote it."""

    text: str

    @property
    def target(self) -> str:
        """The name by which gRPC knows it; what is an address already goes past the resolver."""
        if self.text.startswith("unix:"):
            return self.text
        host = self.text.rpartition(":")[0]
        if host.startswith("["):
            return f"ipv6:{self.text}"
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return f"dns:///{self.text}"
        return f"ipv4:{self.text}"


def parse_endpoints(texts: Sequence[str]) -> tuple[Endpoint, ...]:
    """Raises UsageError on an empty list or an endpoint without a port."""
    if not texts:
        raise UsageError("rendezvous: no etcd endpoint given; give host:port, [v6]:port or unix:/path")
    return tuple(_parse(text.strip()) for text in texts)


def _parse(text: str) -> Endpoint:
    if text.startswith("unix:/"):
        return Endpoint(text)
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]") and len(host) > 2
    if not port.isdecimal() or not 0 < int(port) < 65536 or not host.strip("[]") or (":" in host and not bracketed):
        raise UsageError(f"rendezvous: {text!r} is no etcd endpoint; give host:port, [v6]:port or unix:/path")
    return Endpoint(text)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What etcd wants to see. With ``ca`` the connection is TLS, with ``cert`` and ``key`` mutual TLS.

    With ``https`` alone it is TLS on the system's authorities. ``server_name`` is the host that the server's
    certificate must name, where that is not the endpoint's.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    https: bool = False
    server_name: str = ""

    @property
    def tls(self) -> bool:
        return self.https or self.ca is not None or self.cert is not None

    def channel_options(self) -> list[tuple[str, str]]:
        """What gRPC must be told besides."""
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Raises UsageError where a file cannot be read."""
        if (self.cert is None) != (self.key is None):
            raise UsageError("rendezvous: a client certificate needs both its certificate and its key file")
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca), certificate_chain=_read(self.cert), private_key=_read(self.key)
        )


def credentials(tls: Tls | None) -> Credentials:
    """Those for an etcd that serves with the job's own certificate, or with none."""
    if tls is None:
        return Credentials()
    mutual = tls.ca is not None
    cert, key = (tls.cert, tls.key) if mutual else (None, None)
    return Credentials(tls.authority, cert, key, server_name=NAME)


def _read(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise UsageError(f"rendezvous: cannot read {path}: {error.strerror}") from error
