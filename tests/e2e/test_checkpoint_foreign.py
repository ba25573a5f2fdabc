"""Stock torch.distributed.checkpoint reads what we write, and we read what it wrote, in worlds of other sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.crews import Crew

pytestmark = [pytest.mark.slow, pytest.mark.torch]
PROGRAM = "tests.programs.checkpoint_foreign"


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as made:
        yield made


@pytest.mark.parametrize("how", ["plain", "async", "files", "threads", "no crc"])
def test_we_read_what_stock_code_wrote(crew: Crew, tmp_path: Path, how: str) -> None:
    told = {"path": str(tmp_path / "stock"), "how": how}
    crew.do(f"{PROGRAM}:stock_writes", 3, told)
    assert crew.do(f"{PROGRAM}:we_load", 3, told) == [[]] * 3
    if how == "plain":
        assert crew.do(f"{PROGRAM}:we_load", 2, told) == [[]] * 2
        assert crew.do(f"{PROGRAM}:we_load", 1, told) == [[]]


def test_stock_code_reads_what_we_write(crew: Crew, tmp_path: Path) -> None:
    told = {"path": str(tmp_path / "ours")}
    assert crew.do(f"{PROGRAM}:we_write", 3, told) == [""] * 3
    for world in (3, 2, 1):
        assert crew.do(f"{PROGRAM}:stock_loads", world, told) == [[]] * world
