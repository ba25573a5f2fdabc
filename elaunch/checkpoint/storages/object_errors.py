"""What a file system of fsspec's raises, as an OSError of one line that names the object.

Each client library has exceptions of its own, with nothing in common; a storage raises OSError alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

_BY_NAME = {
    "NoCredentialsError": (errno.EACCES, "no credentials for it"),
    "PartialCredentialsError": (errno.EACCES, "its credentials are not complete"),
    "TokenRetrievalError": (errno.EACCES, "its credentials have expired"),
    "EndpointConnectionError": (errno.EHOSTUNREACH, "it is not reached"),
    "ConnectTimeoutError": (errno.ETIMEDOUT, "no connection in time"),
    "ReadTimeoutError": (errno.ETIMEDOUT, "no answer in time"),
    "FSTimeoutError": (errno.ETIMEDOUT, "no answer in time"),
    "TimeoutError": (errno.ETIMEDOUT, "no answer in time"),
}
_BY_KIND = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
}
_LONGEST = 300


@contextlib.contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise what the block raises as an OSError of ``path``; bugs of our own as they are."""
    try:
        yield
    except Exception as error:
        if type(error).__module__ == "builtins" and not isinstance(error, OSError):
            raise
        raise os_error(error, path) from error


def os_error(error: Exception, path: str) -> OSError:
    """The OSError, of the fitting kind, that says the same."""
    for one in (error, error.__cause__):
        if one is not None and type(one).__name__ in _BY_NAME:
            code, meaning = _BY_NAME[type(one).__name__]
            return OSError(code, _with(meaning, _line(one)), path)
    if _was_there(error):
        return FileExistsError(errno.EEXIST, "is there already", path)
    kinds = (code for kind, code in _BY_KIND.items() if isinstance(error, kind))
    code = next(kinds, None) or (error.errno if isinstance(error, OSError) else None) or errno.EIO
    return OSError(code, _line(error) or os.strerror(code), path)


def _was_there(error: Exception) -> bool:
    """Whether it says, in the words of a store, that an object was to be created and was there (HTTP status 412)."""
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        told = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
        if 412 in (told.get("HTTPStatusCode"), getattr(one, "status", None), getattr(one, "code", None)):
            return True
    return False


def _line(error: BaseException) -> str:
    """Its own words as one line: those of a path alone say nothing."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return _short(str(error.strerror))
    known = isinstance(error, tuple(_BY_KIND)) and len(error.args) == 1 and "/" in str(error) and " " not in str(error)
    return "" if known else _short(str(error))


def _with(meaning: str, said: str) -> str:
    return f"{meaning} ({said})" if said else meaning


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
