"""An S3 server on this host, and storages of every kind on which a test is to hold."""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

from elaunch.checkpoint.storages.objects import Objects
from elaunch.checkpoint.storages.open_storage import open_storage
from elaunch.checkpoint.storages.posix import Posix
from elaunch.checkpoint.storages.storage import Storage

KINDS = ("posix", "memory", "local", "s3")
OBJECTS = KINDS[1:]
BEAT = 0.02  # seconds
BUCKET = "checkpoints"
ABSENT = [name for name in ("s3fs", "moto", "flask", "flask_cors") if importlib.util.find_spec(name) is None]
WHY = f"{', '.join(ABSENT)} not installed: pip install -c constraints.txt -e '.[test]'"


@contextmanager
def server() -> Iterator[str]:
    """The URL of a bucket. Whatever fsspec opens in this process, or in one that it starts, goes to the server."""
    from moto.server import ThreadedMotoServer

    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        yield "http://{}:{}".format(*running.get_host_and_port())
    finally:
        running.stop()


def environment(endpoint: str) -> dict[str, str]:
    """What a program needs to find the server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def url(kind: str, base: Path, request: pytest.FixtureRequest) -> str:
    """A directory of a kind that nobody else has."""
    name = uuid.uuid4().hex
    if kind == "posix":
        return str(base / name)
    if kind != "s3":
        return f"memory://{name}/run" if kind == "memory" else f"local://{base}/{name}"
    endpoint = request.getfixturevalue("s3_server")
    os.environ.update(environment(endpoint))
    return f"s3://{BUCKET}/{name}/run"


def opened(where: str, interval: float = BEAT) -> Storage:
    """It, as another process would open it."""
    storage = open_storage(where)
    if isinstance(storage, Objects):
        storage.interval = interval
    return storage


def file_system() -> Any:
    """Of the server."""
    return fsspec.filesystem("s3")


def as_storage(storage: Posix | Objects) -> Storage:
    """Both are: mypy says so."""
    return storage
