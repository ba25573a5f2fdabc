"""Why an endpoint does not answer, in words for a person who never heard of gRPC. Values in, values out."""

from __future__ import annotations

_CAUSES = (
    (
        ("resolving", "lookup", "Domain name not found", "DNS"),
        "the name {host} is not known here",
    ),
    (
        ("certificate", "CERTIFICATE", "SSL", "TLS", "handshake"),
        "the TLS handshake failed; certificates do not fit, or one side speaks without TLS",
    ),
    (("Connection refused",), "nothing listens there"),
    (("No route to host", "etwork is unreachable"), "no way leads there"),
    (
        (
            *("reset by peer", "roken pipe", "Socket closed", "FD Shutdown"),
            *("http", "settings", "SETTINGS", "frame", "unimplemented"),
        ),
        "something else listens there, or it wants TLS",
    ),
    (("DEADLINE_EXCEEDED", "imeout", "imed out", "does not answer"), "nothing answers there"),
)


def plain(text: str) -> str:
    """The cause in a transport's last error, ``ENDPOINT: STATUS: DETAILS``; ``text`` itself where we know no better."""
    endpoint, _, error = text.partition(": ")
    for signs, cause in _CAUSES:
        if any(sign in error for sign in signs):
            return cause.format(host=endpoint.rpartition(":")[0])
    return text
