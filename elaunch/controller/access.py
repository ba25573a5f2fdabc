"""Who may do what at a control server: tokens, and the roles that they give. Pure, but for reading the token file.

Calls are let in by :func:`elaunch.controller.admission.admit`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from elaunch.errors import UsageError
from elaunch.rendezvous.tls import Tls

TOKEN = "elaunch-token"  # the key in a call's metadata
TOKEN_FILE_VARIABLE = "ELAUNCH_TOKEN_FILE"
_SHORTEST = 16  # characters: shorter ones can be guessed
_LONGEST = 1024
_LARGEST_FILE = 1 << 20  # bytes


class Role(str, Enum):
    """What a token is good for. An agent is no operator, and an operator no agent; an operator may look as well."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    AGENT = "agent"

    def may(self, needs: Role) -> bool:
        """Whether this role may do what ``needs`` is needed for."""
        return self is needs or (self is Role.OPERATOR and needs is Role.VIEWER)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What stands in a token file: tokens and their roles. None of them shows in a ``repr``."""

    pairs: tuple[tuple[Role, str], ...] = field(repr=False)

    def access(self) -> Access:
        """What a server needs of it."""
        by_role = {role: tuple(digest(token) for one, token in self.pairs if one is role) for role in Role}
        return Access(by_role[Role.AGENT], by_role[Role.OPERATOR], by_role[Role.VIEWER])

    def of(self, needs: Role) -> str | None:
        """The first token whose role may do what ``needs`` is needed for, the one of that very role before others."""
        fitting = [(role is not needs, token) for role, token in self.pairs if role.may(needs)]
        return min(fitting, key=lambda pair: pair[0])[1] if fitting else None


@dataclass(frozen=True, slots=True)
class Access:
    """The SHA-256 digests of the tokens that a server takes, by role."""

    agents: tuple[bytes, ...] = field(default=(), repr=False)
    operators: tuple[bytes, ...] = field(default=(), repr=False)
    viewers: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def open(self) -> bool:
        """No token is known."""
        return not (self.agents or self.operators or self.viewers)

    def role_of(self, presented: str) -> Role | None:
        """The role of a token, or None. Takes the same time whichever it is, and whether it is one or not."""
        shown = digest(presented)
        found: Role | None = None
        for role, known in ((Role.AGENT, self.agents), (Role.OPERATOR, self.operators), (Role.VIEWER, self.viewers)):
            for one in known:
                if hmac.compare_digest(one, shown) and found is None:
                    found = role
        return found

    def in_term(self, published: str) -> Access:
        """The access while a leader's record in etcd publishes this random token.

        It is the agents' where the token file names none for them. Without any token file it makes the operators' as
        well (:func:`operator_token`): whoever may read the job's etcd may operate the job.
        """
        own = (digest(published),)
        if self.open:
            return Access(own, (digest(operator_token(published)),))
        return self if self.agents else replace(self, agents=own)


@dataclass(frozen=True, slots=True)
class Security:
    """How the servers and clients of one process show who they are: certificates and tokens, as far as configured."""

    tls: Tls | None = None
    tokens: Tokens | None = None

    @property
    def words(self) -> str:
        """What is configured, for nodes to compare: no token is in it."""
        tls = () if self.tls is None else ("tls",) if self.tls.ca is None else ("mutual tls",)
        return ", ".join((*tls, *(("tokens",) if self.tokens is not None else ())))

    @property
    def access(self) -> Access:
        """The access that the token file gives; empty without one."""
        return self.tokens.access() if self.tokens is not None else Access()


OPEN = Security()
"""Nothing configured: no TLS, and the token that the leader publishes in etcd."""


def operator_token(published: str) -> str:
    """The operators' token of a job without a token file, made from the one in its leader's record."""
    return hmac.new(published.encode(), b"elaunch operator", hashlib.sha256).hexdigest()


def token_for(needs: Role, tokens: Tokens | None, published: str) -> str:
    """What a client shows to the leader whose record publishes this token. Raises UsageError where it has none.

    ``tokens`` are those of its own token file, None where it has no such file.
    """
    if tokens is None:
        return published if needs is Role.AGENT else operator_token(published)
    own = tokens.of(needs)
    if own is None and needs is not Role.AGENT:
        raise UsageError(f"the token file has no token of the role {needs.value}")
    return own or published


def read_token_file(path: str) -> Tokens:
    """The tokens in a file. Raises UsageError, in one line that does not show them.

    A line is ``ROLE TOKEN``, or a token alone, which is an operator's; blank lines and those that begin with ``#`` are
    left out. The file may be read and written by its owner alone.
    """
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_LARGEST_FILE)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"token file {path}: cannot be read: {why}") from None
    if mode & 0o077:
        raise UsageError(f"token file {path}: other users can get at it (mode {mode & 0o777:04o}); chmod 600 it")
    return parse_tokens(text, f"token file {path}")


def parse_tokens(text: str, source: str = "tokens") -> Tokens:
    """The tokens in the text of a token file. Raises UsageError that names ``source`` and the line."""
    pairs: list[tuple[Role, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 1:
            words.insert(0, Role.OPERATOR.value)
        if len(words) != 2 or words[0] not in {role.value for role in Role}:
            raise UsageError(f"{source}, line {number}: expected agent, operator or viewer, and a token")
        role, token = Role(words[0]), words[1]
        if not _SHORTEST <= len(token) <= _LONGEST or not token.isascii() or not token.isprintable():
            raise UsageError(f"{source}, line {number}: expected a token of {_SHORTEST} ASCII characters or more")
        pairs.append((role, token))
    if not pairs:
        raise UsageError(f"{source}: holds no token")
    if len({token for _, token in pairs}) != len(pairs):
        raise UsageError(f"{source}: one token stands there twice")
    return Tokens(tuple(pairs))


def find_tokens(path: str | None, environ: Mapping[str, str]) -> Tokens | None:
    """The tokens of ``--token-file``, else of ``ELAUNCH_TOKEN_FILE``, else None. Raises UsageError."""
    path = path or environ.get(TOKEN_FILE_VARIABLE)
    return read_token_file(path) if path else None


def digest(token: str) -> bytes:
    """What a server keeps of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
