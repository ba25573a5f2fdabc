"""For all tests: who runs beside whom; and what one does to the environment, the next does not see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

# No test has a terminal, and most look for the lines that a person would see.
os.environ.setdefault("ELAUNCH_LOG_FORMAT", "console")

# Properties are of values: that the machine stood still for a moment in one of thousands of examples breaks none. CI
# draws the same examples each time, as Hypothesis does where it knows a CI itself; everywhere else they are new ones.
settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("busy")

HERE = Path(__file__).parent
FAST = ("unit", "etcd")
"""Folders of which every test is over in a moment; those that are not say that they are slow."""
CLUSTERS = ("slurm", "kubernetes")
"""Folders whose tests start a whole cluster and wait for it, mostly; its own deadlines are those of a site."""
SHARED = {"lab": "lab", "browser": "lab", **{cluster: cluster for cluster in CLUSTERS}}
"""Folders whose tests share one big thing, a network or a cluster; a browser drops what it loads when a network of the
laboratory comes or goes."""
LONG = (
    *("lab", "browser", "docs"),
    *(f"e2e/test_{name}.py" for name in ("trio", "hangs", "qualify", "torchrun_plugin", "inject")),
)
"""What takes longest, which begins first: none of it is to be what all wait for in the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "of all tests but those of values and of etcd"
    parser.addoption("--part", choices=("together", "clusters", "alone"), help=help)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders of another part are not even imported."""
    part = config.getoption("--part")
    if part is None or collection_path.parent != HERE or not collection_path.is_dir():
        return None
    folder = collection_path.name
    return True if folder in FAST or (folder in CLUSTERS) != (part == "clusters") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if part := config.getoption("--part"):
        other = [item for item in items if (item.get_closest_marker("alone") is not None) != (part == "alone")]
        items[:] = sorted((item for item in items if item not in set(other)), key=_turn)
        config.hook.pytest_deselected(items=other)


def _turn(item: pytest.Item) -> int:
    place = _place(item.nodeid)
    return next((turn for turn, long in enumerate(LONG) if place.startswith(long)), len(LONG))


def _place(nodeid: str) -> str:
    return nodeid.split("::", 1)[0].removeprefix("tests/")


class TogetherScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Shares out files, and folders that share: their tests run one after the other, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        place = _place(nodeid)
        folder = place.split("/", 1)[0]
        return SHARED.get(folder, place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TogetherScheduling | None:
    """Of ``--dist loadscope``, in the order in which tests were collected."""
    config.option.loadscopereorder = False
    return TogetherScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(autouse=True)
def _same_environment() -> Iterator[None]:
    """The torchrun plug-in, for one, sets variables of its process for the workers that will inherit them."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    for name, value in before.items():
        if os.environ.get(name) != value:  # a library's thread may read the environment meanwhile
            os.environ[name] = value
