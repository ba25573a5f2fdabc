"""What ``--web`` and its companions ask for. Imports nothing of the server: it is read at every start."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where to listen: ``host`` is an address or a name, "" for every address, ``port`` 0 for a free one.

    ``actions``: without a token file, whoever reaches the page may act; on loopback only. ``names`` are host names by
    which this server is asked for, beside the machine's own.
    """

    host: str
    port: int
    actions: bool = False
    names: tuple[str, ...] = ()

    def url(self, address: str, tls: bool) -> str:
        """Where the page is, on the host at ``address``; "" where the port is not known beforehand."""
        host = self.host if self.host and self.host not in ("0.0.0.0", "::") else address
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if tls else 'http'}://{shown}:{self.port}" if self.port else ""


def parse_web(text: str, actions: bool = False, names: tuple[str, ...] = ()) -> WebOptions:
    """``[HOST:]PORT``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") if colon else LOOPBACK
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError("expected [HOST:]PORT, such as 8080 or 0.0.0.0:8080")
    if any(not (name and name.isprintable()) for name in names):
        raise ValueError("expected host names")
    if host in ("*", "0.0.0.0", "::"):
        host = "0.0.0.0" if host == "*" else host
    if actions and host not in (LOOPBACK, "localhost", "::1"):
        raise ValueError("--web-actions is for loopback: elsewhere give --token-file, with an operator's token")
    return WebOptions(host, int(port), actions, tuple(name.lower() for name in names))
