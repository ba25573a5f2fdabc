"""Where everything of a checkpoint directory stands, and how its names are read. Values only: no I/O.

::

    runs/a/                          what the program names
      step-00000100/                 a committed checkpoint: stock DCP files and manifest.json
      step-00000100.claim-9/         the same step, saved again by a later run: never in place of the first
      step-00000100.claim-9.0001/    object stores, where all names tell the claim: saved again by the same run
      .elaunch/
        claims/00000009.json         one per start of the program that may write here: the fence
        staging/step-00000200.gen-3.claim-9/    a save that is being written
        retired/claim-9/             checkpoints that a run takes away: those of older runs may not any more
        trash/                       what is being deleted
        seals/00000009.json          object stores: what was committed when that claim was made
        probe                        object stores: is there, so that creating it must be refused
        marks/step-00000100.json     why a checkpoint is not restored any more
        removing/                    what ``elaunch ckpt rm`` is about to remove, while it runs
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

MANIFEST = "manifest.json"
METADATA = ".metadata"  # DCP's own name
PRIVATE = ".elaunch"
CLAIMS = f"{PRIVATE}/claims"
STAGING = f"{PRIVATE}/staging"
SEALS = f"{PRIVATE}/seals"
PROBE = f"{PRIVATE}/probe"
RETIRED = f"{PRIVATE}/retired"
TRASH = f"{PRIVATE}/trash"
MARKS = f"{PRIVATE}/marks"
REMOVING = f"{PRIVATE}/removing"
ATTEMPTS = f"{PRIVATE}/attempts.json"

MOST_CLAIM = 10**18 - 1  # what a name may tell

_STEP = re.compile(r"step-(\d{8,19})(?:\.claim-(\d{1,18})(?:\.\d{4,9})?)?")
_STAGED = re.compile(r"step-(\d{8,19})\.gen-(\d{1,18})\.claim-(\d{1,18})")
_CLAIM = re.compile(r"(\d{8,18})\.json")
_RETIRED = re.compile(r"claim-(\d{1,18})")
_TEMPORARY = re.compile(r"\..{1,200}\.[0-9a-f]{32}")
_FILE = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@dataclass(frozen=True, slots=True)
class Staged:
    """What the name of a staging directory says."""

    step: int
    generation: int
    claim: int


def step_name(step: int, claim: int = 0, take: int = 0) -> str:
    """The name of a committed checkpoint; with a ``claim`` where another run has saved this step before.

    ``take`` is how often this run has saved it before.
    """
    return f"step-{step:08d}" + (f".claim-{claim}" if claim else "") + (f".{take:04d}" if take else "")


def step_of(name: str) -> int | None:
    """The step that the name of a committed checkpoint tells, None for any other name."""
    found = _STEP.fullmatch(name)
    return int(found.group(1)) if found else None


def claim_in(name: str) -> int:
    """The claim that the name of a checkpoint tells, 0 where it tells none."""
    found = _STEP.fullmatch(name)
    return int(found.group(2) or 0) if found else 0


def staging_name(step: int, generation: int, claim: int) -> str:
    """The name of the directory in which a save is written."""
    return f"step-{step:08d}.gen-{generation}.claim-{claim}"


def staged_of(name: str) -> Staged | None:
    """What the name of a staging directory tells, None for any other name."""
    found = _STAGED.fullmatch(name)
    return Staged(*map(int, found.groups())) if found else None


def claim_name(number: int) -> str:
    """The file name of a claim."""
    return f"{number:08d}.json"


def claim_of(name: str) -> int | None:
    """The number of a claim, from its file name."""
    found = _CLAIM.fullmatch(name)
    return int(found.group(1)) if found else None


def retired_name(claim: int) -> str:
    """The name of the directory into which a run moves the checkpoints that it takes away."""
    return f"claim-{claim}"


def retired_of(name: str) -> int | None:
    """The number of the claim, from such a name."""
    found = _RETIRED.fullmatch(name)
    return int(found.group(1)) if found else None


def mark_of(name: str) -> str:
    """The path of the mark of a checkpoint."""
    return f"{MARKS}/{name}.json"


def temporary_name(name: str) -> str:
    """The name, like no other, of a file that is to become ``name``."""
    return f".{name}.{uuid.uuid4().hex}"


def is_temporary(name: str) -> bool:
    """Whether it is such a name."""
    return _TEMPORARY.fullmatch(name) is not None


def data_name(rank: int) -> str:
    """The file that a rank writes: the name that DCP's own writer would give it."""
    return f"__{rank}_0.distcp"


def is_plain(name: str) -> bool:
    """Whether a name from a manifest or from DCP's metadata stays inside of its checkpoint."""
    return _FILE.fullmatch(name) is not None and name not in (".", "..")
