"""The manifest: everything comes back, and nothing damaged does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.checkpoint.records import manifest, sums
from elaunch.checkpoint.records.manifest import Entry, FileSum, Manifest, Origin
from elaunch.errors import DamagedCheckpointError

_COUNTS = st.integers(0, 2**40)
_FILES = _COUNTS.filter(lambda size: size < 2**26).flatmap(
    lambda size: st.binary(min_size=sums.count(size) * 8, max_size=sums.count(size) * 8).map(
        lambda blocks: FileSum(size, blocks)
    )
)
_ENTRIES = st.builds(
    Entry, st.sampled_from(["float32", "bfloat16"]), st.lists(_COUNTS, max_size=4).map(tuple), st.text(max_size=10)
) | st.just(Entry())
_MANIFESTS = st.builds(
    Manifest,
    step=_COUNTS,
    world_size=_COUNTS,
    origin=st.builds(
        Origin,
        job=st.text(max_size=20),
        generation=_COUNTS,
        restart_count=_COUNTS,
        claim=_COUNTS,
        host=st.text(max_size=20),
        saved_at=st.floats(0, 1e10),
        torch=st.just("2.13.0"),
        elaunch=st.just("0.1.0"),
    ),
    files=st.dictionaries(st.from_regex(r"__[0-9]{1,3}_0\.distcp", fullmatch=True), _FILES, max_size=4),
    entries=st.dictionaries(st.text(max_size=20), _ENTRIES, max_size=4),
    meshes=st.just(({"shape": [2, 2], "names": ["dp", "tp"]},)),
)


def _small() -> bytes:
    origin = Origin("job", 3, 1, 7, "host", 1.5, "2.13.0", "0.1.0")
    files = {"__0_0.distcp": FileSum(5, b"12345678")}
    return manifest.encode(Manifest(100, 2, origin, files, {"model.w": Entry("float32", (2, 3), "Shard(dim=0)")}))


@given(_MANIFESTS)
def test_what_was_written_is_read(written: Manifest) -> None:
    assert manifest.decode(manifest.encode(written), "m") == written


def test_every_flipped_bit_is_found() -> None:
    data = _small()
    for at in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(DamagedCheckpointError, match=r"step-1/manifest\.json"):
            manifest.decode(bytes(damaged), "step-1/manifest.json")


def test_every_truncation_is_found() -> None:
    data = _small()
    for length in range(len(data)):
        with pytest.raises(DamagedCheckpointError):
            manifest.decode(data[:length], "m")


@pytest.mark.parametrize(
    "change",
    [
        (b'"format": 1', b'"format": 2'),
        (b'"step": 100', b'"step": -1'),
        (b'"__0_0.distcp"', b'"../../passwd"'),
        (b'"size": 5', b'"size": 9999999999'),
        (b'"files": {', b'"files": [], "f": {'),
    ],
)
def test_a_manifest_that_says_what_cannot_be_is_refused(change: tuple[bytes, bytes]) -> None:
    body = _small().rpartition(b'"sum": "')[0].replace(*change) + b'"sum": "'
    forged = body + sums.whole(body).encode() + b'"\n}\n'
    with pytest.raises(DamagedCheckpointError):
        manifest.decode(forged, "m")


def test_a_generation_counts_for_its_own_job_only() -> None:
    origin = Origin(job="train", generation=4, incarnation="b")
    assert origin.generation_in("train", "b") == 4
    assert origin.generation_in("train", "a") == 0  # begun anew since, under the same name
    assert origin.generation_in("other", "b") == 0
