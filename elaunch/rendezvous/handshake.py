"""Whether a job's certificate, key and authority fit together: found out at the door, not by the first peer."""

from __future__ import annotations

import os
import ssl

from elaunch.errors import UsageError
from elaunch.rendezvous.tls import NAME, Tls

_TURNS = 8  # of a handshake between two ends of which neither waits for a network


def check(tls: Tls) -> None:
    """Raises UsageError, in one line, where no connection could come of these files.

    What counts is tried, not guessed: one handshake in memory, with these files at both ends.
    """
    server = _context(ssl.PROTOCOL_TLS_SERVER, tls)
    client = _context(ssl.PROTOCOL_TLS_CLIENT, tls)
    if tls.ca is not None:
        server.verify_mode = ssl.CERT_REQUIRED
    try:
        _shake_hands(server, client)
    except ssl.SSLCertVerificationError as error:
        raise UsageError(f"tls: {tls.cert} is not trusted by {tls.authority}: {_reason(error)}") from None
    except ssl.SSLError as error:
        raise UsageError(f"tls: no connection comes of {tls.cert}: {error.reason or error}") from None


def names(tls: Tls, host: str) -> bool:
    """Whether this certificate is also that of ``host``, as members of an etcd want it of each other."""
    try:
        server, client = _context(ssl.PROTOCOL_TLS_SERVER, tls), _context(ssl.PROTOCOL_TLS_CLIENT, tls)
        _shake_hands(server, client, host)
    except (UsageError, ssl.SSLError):
        return False
    return True


def _context(protocol: int, tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    for path in (tls.cert, tls.key, tls.authority):
        if not path.is_file() or not os.access(path, os.R_OK):
            raise UsageError(f"tls: {path}: no such file, or it cannot be read")
    try:
        context.load_verify_locations(tls.authority)
    except ssl.SSLError:
        raise UsageError(f"tls: {tls.authority}: expected certificates in PEM form") from None
    try:
        context.load_cert_chain(tls.cert, tls.key, password=_nobody_to_ask)
    except ssl.SSLError as error:
        why = "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "expected PEM files"
        raise UsageError(f"tls: certificate {tls.cert} and key {tls.key}: {why}") from None
    return context


def _nobody_to_ask() -> str:
    raise UsageError("tls: the key is encrypted, and nobody is there to type a password; give one that is not")


def _reason(error: ssl.SSLCertVerificationError) -> str:
    text: str = error.verify_message
    if "ostname mismatch" in text:
        return f"it does not name the host {NAME} (subjectAltName DNS:{NAME})"
    if "self-signed" in text or "self signed" in text or "unable to get" in text:
        return f"{text}; give the authority that signed it with --tls-ca"
    return text


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = NAME) -> None:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname=host),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(_TURNS):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
        if not ends:
            return
    raise ssl.SSLError("the handshake does not come to an end")
