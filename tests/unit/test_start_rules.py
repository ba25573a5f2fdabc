"""The rules of a start: which ranks do not fit together, and that what is merely unusual is let through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.start_record import StartRecord, packed, told, unpacked
from elaunch.start_rules import Claim, claim_of, disagreement, packed_claim, unpacked_claim
from elaunch.worker.start_mesh import differing_meshes

FOUR = tuple(Claim(rank, f"h{rank // 2}", rank, 4, 1, "job") for rank in range(4))


def with_(rank: int, **values: object) -> list[Claim]:
    return [replace(claim, **values) if claim.rank == rank else claim for claim in FOUR]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        (FOUR, ""),
        ([replace(c, asked_rank=3 - c.rank) for c in FOUR], ""),  # numbered by the program, in its own order
        (with_(2, job="other"), "rank 2 (h1) is of job 'other', ranks 0, 1, 3 (h0, h1) are of job 'job'"),
        (with_(2, generation=7), "rank 2 (h1) is of generation 7, ranks 0, 1, 3 (h0, h1) are of generation 1"),
        (
            with_(3, asked_world_size=8),
            "rank 3 (h1) asked for a world of 8 ranks, ranks 0, 1, 2 (h0, h1) asked for a world of 4 ranks; "
            "elaunch started 4",
        ),
        (with_(3, asked_rank=1), "ranks 1, 3 (h0, h1) both ask to be rank 1 of 4, and nobody is rank 3"),
        (with_(3, asked_rank=9), "rank 3 (h1) asks to be rank 9 of 4"),
        (
            [replace(c, device="0000:3b:00.0") for c in FOUR if c.rank < 2] + list(FOUR[2:]),
            "ranks 0, 1 (h0) both hold device 0000:3b:00.0: each rank needs one of its own (LOCAL_RANK)",
        ),
        ([replace(c, device=f"gpu{c.rank % 2}") for c in FOUR], ""),  # one of each on either host
        (
            [replace(c, digest="aa" if c.rank else "bb") for c in FOUR],
            "rank 0 (h0) has the topology bb, ranks 1, 2, 3 (h0, h1) have the topology aa: the machines differ "
            "(elaunch topo shows each; --allow-asymmetry lets them)",
        ),
        (
            [replace(c, digest=("a" if c.rank else "b") * 32) for c in FOUR],
            "rank 0 (h0) has the topology bbbbbbbbbbbb, ranks 1, 2, 3 (h0, h1) have the topology aaaaaaaaaaaa: the "
            "machines differ (elaunch topo shows each; --allow-asymmetry lets them)",
        ),
        ([replace(c, digest="aa" if c.rank else "bb", asymmetry=True) for c in FOUR], ""),
        (with_(3, digest="aa"), ""),  # the others do not know theirs
    ],
)
def test_what_must_agree(claims: list[Claim], text: str) -> None:
    assert disagreement(claims) == text


def test_a_claim_survives_its_way() -> None:
    assert unpacked_claim(packed_claim(FOUR[3])) == FOUR[3]
    for text in ("", "[]", "{}", "[1,2]"):
        with pytest.raises((ValueError, TypeError)):
            unpacked_claim(text)


def test_a_device_is_exclusive_only_for_backends_of_devices() -> None:
    """Two ranks over Gloo may share the one GPU of a workstation; and where none has a device, hosts may differ."""
    record = StartRecord(device_id="0000:3b:00.0", topology_digest="aa", backend="gloo")
    assert claim_of(record).device == ""
    assert claim_of(replace(record, backend="cpu:gloo,cuda:nccl")).device == "0000:3b:00.0"
    assert claim_of(record).digest == "aa"
    assert claim_of(replace(record, device_id="")).digest == ""


def test_a_record_survives_its_way_and_nothing_else_passes() -> None:
    record = told(StartRecord(rank=3, timeout=1800.0), host="höst" * 200, fault="f" * 2000)
    assert len(record.host) == 200
    assert unpacked(packed(record, 4000)) == record
    assert len(unpacked(packed(record, 1300)).fault) == 200
    assert unpacked(packed(record, 900)).rank == 3
    for payload in (b"", b"[]", b'{"rank":"3"}', b'{"phase":"x"}', b'{"timeout":NaN}', b'{"rank":1e99}', b"[" * 5000):
        with pytest.raises(ValueError, match=r".+"):
            unpacked(payload)


def test_meshes_that_differ_are_told_with_who_makes_them() -> None:
    one, other = '["cpu", [2, 2], ["dp", "tp"], []]', '["cuda", [4], [], [3, 2, 1, 0]]'
    assert differing_meshes([one] * 4) == ""
    assert differing_meshes([one, one, other, one]) == (
        "the ranks make different meshes under one call: rank 2 makes a cuda mesh of (4,) of ranks 3, 2, 1, 0, "
        "ranks 0, 1, 3 make a cpu mesh of (2, 2) named ('dp', 'tp')"
    )


def test_each_rank_may_have_a_mesh_of_its_own() -> None:
    """Its group waits for nobody; with one of two ranks that is not so."""
    own = [f'["cpu", [1], [], [{rank}]]' for rank in range(3)]
    assert differing_meshes(own) == ""
    assert differing_meshes([*own, '["cpu", [2], [], [2, 3]]']) != ""
