"""Takes secrets out of text that leaves this host: those whose values are known, and what looks like one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "***"
_SHORTEST = 4  # characters of a value that is looked for wherever it may stand
_COMMON = {"true", "false", "none", "null", "auto", "root", "test", "file", "local", "default", "enabled", "disabled"}

_SECRET_NAME = re.compile(
    r"token(?!i[sz])|secret|passw|passphrase|passwd|credential|private|cookie|apikey|webhook|conn(ection)?_?str|(^|[_.-])(key|keys|auth|authorization"
    r"|pwd|pass|pw|creds?|pat|dsn|sas|jwt|bearer|session)($|[_.-])|[a-z]_?key$|(user|bind|root|db)(pass|pw)$",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(r"^(old)?pwd$|_(file|path|dir|folder|command|timeout|count|limit)$", re.IGNORECASE)
_WORD = (
    r"(?:token|secret|password|passwd|passphrase|credentials?|private[_-]?key|api[_-]?key|access[_-]?key|auth[_-]?key"
    r"|authorization|cookie|\bpwd|(?<!tls)[_-]key|account[_-]?key|shared[_-]?access[_-]?signature|(?<![a-z])pass)"
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL), HIDDEN),
    (
        re.compile(r"://[^\s/@\"'<>:]{0,200}:[^\s\"'<>/:?#]{0,200}(?:[/:?#][^\s\"'<>/:?#]{0,200}){0,5}@(?=[\w.-])"),
        f"://{HIDDEN}@",
    ),
    (re.compile(r"://[^\s/@\"'<>]{1,1000}@"), f"://{HIDDEN}@"),
    (re.compile(r"(?i)([?&](?:sig|x-amz-signature|x-goog-signature|signature)=)[^\s&\"'<>]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)(https://hooks\.[\w.-]+/)[^\s\"'<>]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    (re.compile(rf"(?i)({_WORD}\\?[\"']?\s*[=:]\s*)(\\?[\"'])(?!\2)(.*?)(\2|$)", re.MULTILINE), rf"\1\2{HIDDEN}\4"),
    (re.compile(rf"(?i)({_WORD}\s*[=:]\s*)(?![\"'\\*\s])[^\s,;&\"'}}\])]+"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)(--[\w-]{{0,40}}{_WORD})(\s+|\"\s*,\s*\")(?!-)[^\s\",]+"), rf"\1\2{HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\b(?:hf|ghp|gho|ghs|ghu|github_pat|glpat|sk|xox[abp]|pypi|npm)[_-][A-Za-z0-9_-]{16,}"), HIDDEN),
)


def secret_name(name: str) -> bool:
    """Whether a variable or field of this name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _NO_SECRET_NAME.search(name)


def secrets_in(environ: Mapping[str, str]) -> set[str]:
    """The secrets that variables hold: the values of those named so, passwords in the addresses of all."""
    found = {value for name, value in environ.items() if secret_name(name)}
    for value in environ.values():
        for part in value.split():
            found |= _password_of(part)
    return found


def _password_of(text: str) -> set[str]:
    if "://" not in text or "@" not in text:
        return set()
    try:
        parts = urlsplit(text)
        return {unquote(word) for word in (parts.password,) if word} | {parts.password or ""}
    except ValueError:
        return set()


class Redactor:
    """Takes out ``known`` values, in every form in which text may show them, and what has the look of a secret."""

    def __init__(self, known: Iterable[str]) -> None:
        values = {form for value in known for form in _forms(value)}
        longest_first = sorted(values, key=lambda value: (-len(value), value))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return text

    def data(self, data: bytes) -> bytes:
        """The same for what may be no text: bytes that are none stay as they are."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables by name, without the values of those that are secret."""
        return {
            name: HIDDEN if value and secret_name(name) else self.text(value) for name, value in sorted(environ.items())
        }


def _forms(value: str) -> set[str]:
    """A secret as it is, and as it stands in JSON, in an address, in a repr, in base64; none of what is no secret."""
    value = value.strip()
    if len(value) < _SHORTEST or value.lower() in _COMMON or (value.isdecimal() and len(value) < 2 * _SHORTEST):
        return set()  # MAX_TOKENS=4096: a log without such numbers would be of no use
    raw = value.encode("utf-8", "surrogateescape")
    encoded = base64.b64encode(raw).decode()
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    forms |= {quote(raw, safe=""), quote(raw), quote_plus(raw), encoded, encoded.rstrip("=")}
    forms.add(base64.urlsafe_b64encode(raw).decode().rstrip("="))
    forms |= {line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * _SHORTEST}  # a key over lines
    return {form for form in forms if len(form) >= _SHORTEST}
