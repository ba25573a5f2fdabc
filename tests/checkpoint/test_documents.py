"""Small files of a directory that are not what they should be: they stop nothing, or are one clear error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.claims import Claim
from elaunch.checkpoint.records.manifest import Origin
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.posix import Posix
from elaunch.errors import CheckpointError, DamagedCheckpointError

NESTED = "[" * 60_000


def made(path: Path, **options: Any) -> Checkpointer:
    return Checkpointer(path, {"w": torch.ones(1)}, rng=False, **options)


def saved(path: Path, *steps: int) -> None:
    with made(path) as one:
        for step in steps:
            one.save(step)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    if text:
        path.write_text(text)
    else:
        path.mkdir()


@pytest.mark.parametrize("text", ['{"1": Infinity}', '{"1": "x"}', NESTED, "null", "", '{"1": 3, "2": 1e400}'])
def test_counts_of_starts_are_worth_nothing_where_they_cannot_be_read(tmp_path: Path, text: str) -> None:
    saved(tmp_path, 1)
    put(tmp_path / layout.ATTEMPTS, text)
    with made(tmp_path) as one:
        assert one.restore() == 1


@pytest.mark.parametrize("text", [NESTED, json.dumps({"reason": "x" * 70_000}), "", "{"])
def test_a_mark_counts_by_its_name_whatever_is_in_it(tmp_path: Path, text: str) -> None:
    saved(tmp_path, 1, 2)
    put(tmp_path / layout.mark_of("step-00000002"), text)
    with made(tmp_path) as one:
        assert one.restore() == 1


def test_a_long_reason_leaves_a_mark_that_can_be_read(tmp_path: Path) -> None:
    catalog = Catalog(Posix(tmp_path))
    catalog.mark("step-00000002", "\N{SNOWMAN}" * 100_000)
    assert catalog.marks()["step-00000002"].startswith("\N{SNOWMAN}" * 1000)


@pytest.mark.parametrize(
    "change", [lambda raw: NESTED, lambda raw: json.dumps({**raw, "generation": float("inf")}), lambda raw: "{}"]
)
def test_a_broken_claim_is_said_to_be_one(tmp_path: Path, change: Callable[[dict[str, Any]], str]) -> None:
    saved(tmp_path, 1)
    (known,) = (tmp_path / layout.CLAIMS).iterdir()
    (tmp_path / layout.CLAIMS / "00000007.json").write_text(change(json.loads(known.read_text())))
    with pytest.raises(CheckpointError, match=r"00000007\.json: not a claim .*; remove it if no program runs"):
        made(tmp_path)


def test_no_claim_is_made_of_which_nobody_would_see_the_number(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    (known,) = (tmp_path / layout.CLAIMS).iterdir()
    known.rename(tmp_path / layout.CLAIMS / f"{layout.MOST_CLAIM}.json")
    with pytest.raises(CheckpointError, match=f"claim {layout.MOST_CLAIM} was the last there can be"):
        made(tmp_path)


@pytest.mark.parametrize("change", [{"claim": 10**30}, {"claim": 10**18 - 1}, {"claim": -1}, {"saved_at": 1e300}])
def test_a_manifest_does_not_carry_claims_or_times_out_of_sight(tmp_path: Path, change: dict[str, Any]) -> None:
    saved(tmp_path, 1, 2)
    path = tmp_path / "step-00000002" / layout.MANIFEST
    known = manifest.decode(path.read_bytes(), "")
    data = manifest.encode(replace(known, origin=Origin(**{"claim": 1, **change})))
    with pytest.raises(DamagedCheckpointError, match="not a manifest"):
        manifest.decode(data, "")
    path.write_bytes(data)
    with made(tmp_path) as one:
        assert one.restore() == 1
        one.save(3)
        assert one.wait().committed
        assert isinstance(one._claim, Claim)
        assert one._claim.number == 2


def test_what_cannot_be_read_keeps_no_older_ones_from_being_removed(tmp_path: Path) -> None:
    (tmp_path / "step-00000077").symlink_to("step-00000077")
    put(tmp_path / layout.PRIVATE / "x", "x")
    put(tmp_path / layout.ATTEMPTS, "")
    with made(tmp_path, keep_last=1) as one:
        for step in (1, 2, 3):
            one.save(step)
            assert one.wait().committed
    assert sorted(one.name for one in tmp_path.glob("step-*")) == ["step-00000003", "step-00000077"]
