"""gRPC ignores an option that it does not know, and so one that is misspelt."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc._cython import cygrpc

from elaunch.controller import client, server

LIBRARY = Path(cygrpc.__file__).read_bytes()


@pytest.mark.parametrize("name", sorted({name for name, _ in (*client.OPTIONS, *server.OPTIONS)}))
def test_grpc_knows_the_option(name: str) -> None:
    assert name.encode() in LIBRARY
