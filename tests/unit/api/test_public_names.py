"""What programs may import from ``elaunch``, and that importing it is cheap: a change here is a change for them."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import elaunch
from tests.e2e.spawning import environment

SIGNATURES = {
    "step": "(number: 'int') -> 'None'",
    "section": "(name: 'str', timeout: 'float | None' = None) -> 'None'",
    "should_stop": "(agree: 'bool' = False) -> 'bool'",
    "time_left": "() -> 'float | None'",
    "launch": "(config: 'LaunchConfig', entrypoint: 'Callable[..., Any] | str | Sequence[str]', *args: 'object')"
    " -> 'dict[int, Any]'",
}
FIELDS = [
    *("job", "incarnation", "generation", "restart_count", "max_restarts", "reason", "rank", "world_size"),
    *("local_rank", "local_world_size", "role", "node", "node_rank", "nodes", "recorded_step"),
]


def test_the_names_and_no_others() -> None:
    assert sorted(elaunch.__all__) == sorted(
        [*SIGNATURES, "Checkpointer", "ChildFailedError", "Context", "LaunchConfig", "__version__", "context"]
    )
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        elaunch.nothing  # noqa: B018


@pytest.mark.parametrize("name", SIGNATURES)
def test_their_signatures(name: str) -> None:
    assert str(inspect.signature(getattr(elaunch, name))) == SIGNATURES[name]


def test_the_context_outside_of_elaunch_and_inside() -> None:
    assert list(inspect.signature(elaunch.Context).parameters) == FIELDS
    alone = elaunch.context({})
    assert (alone.rank, alone.world_size, alone.generation, alone.launched) == (0, 1, 0, False)
    names = {
        "ELAUNCH_JOB": "j",
        "ELAUNCH_GENERATION": "3",
        "ELAUNCH_REASON": "rank 1 failed",
        "ELAUNCH_NODE_ID": "n1",
        "ELAUNCH_RECORDED_STEP": "40",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
    }
    here = elaunch.context(names)
    assert here.launched
    assert (here.job, here.generation, here.restart_count, here.reason) == ("j", 3, 2, "rank 1 failed")
    assert (here.rank, here.world_size, here.local_rank, here.local_world_size) == (5, 8, 1, 4)
    assert (here.node, here.node_rank, here.nodes, here.recorded_step) == ("n1", 1, 2, 40)


def test_importing_it_takes_nothing_along() -> None:
    text = (
        "import sys; before = set(sys.modules); import elaunch; print(sorted(set(sys.modules) - before));"
        "elaunch.step(1); elaunch.context(); elaunch.launch; elaunch.LaunchConfig;"
        "print(sorted({'torch', 'grpc', 'asyncio', 'structlog', 'google'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment(), timeout=60)
    loaded, heavy = done.stdout.splitlines()
    assert "'elaunch'" in loaded
    assert "elaunch." not in loaded
    assert heavy == "[]", done.stderr
