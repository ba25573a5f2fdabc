"""One Kubernetes for all tests of this folder, and a namespace for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.installed import build, missing


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build its servers only where a test is to run that needs them, and outside the time that a test has."""
    wanted = any("cluster" in getattr(item, "fixturenames", ()) and _is_here(item) for item in session.items)
    capture = session.config.pluginmanager.getplugin("capturemanager")
    if wanted and not session.config.option.collectonly and capture is not None:
        with capture.global_and_fixture_disabled():
            build()


def _is_here(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(f"no Kubernetes here: {why}")
    with Cluster() as running:
        yield running


class Apply(Protocol):
    def __call__(self, *objects: dict[str, Any]) -> None: ...


@pytest.fixture
def apply(cluster: Cluster, namespace: str) -> Apply:
    """Has objects made, or changed, in the test's namespace."""

    def apply(*objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(listed))

    return apply


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Of which nothing is left running."""
    with cluster.namespace() as name:
        yield name
