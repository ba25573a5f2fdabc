"""How a node enters a job: its key on its lease, beside a spec that it agrees with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from elaunch.errors import AmbiguousError, RendezvousError, SpecMismatchError
from elaunch.rendezvous import seats
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, Spec, encode, read
from elaunch.rendezvous.store import Compare, Field, Op, Put, Store, Txn, absent

_ATTEMPTS = 50
_OPTION = {
    "min_nodes": "--nnodes",
    "max_nodes": "--nnodes",
    "max_restarts": "--max-restarts",
    "nproc": "--nproc-per-node",
    "program": "the program",
    "security": "security (--tls-cert, --tls-ca, --token-file)",
}


async def join(store: Store, keys: JobKeys, spec: Spec, node: Node, lease: int) -> bool:
    """Write ``node``'s key on ``lease``: one transaction, where the job's spec is this node's own.

    The first node writes the spec; a node with a role that is new to the job adds it. A spec of which no node lives
    any more is replaced. True if it wrote the spec: then it is the job's first. Raises SpecMismatchError where another
    value is in force, RankTakenError where another node came with the rank that this one owns, BadRecordError.
    """
    seat = seats.claim(keys, node, lease)
    entry: list[Op] = [Put(keys.node(node.node_id), encode(node), lease), *([seat] if seat else [])]
    free = [absent(seat.key)] if seat else []
    put_spec = Put(keys.spec, encode(spec))
    try:
        agreed = [Compare(keys.spec, Field.VALUE, put_spec.value), *free]
        result = await store.txn(agreed, entry, otherwise=Txn([absent(keys.spec), *free], [put_spec, *entry]))
        if result.succeeded or result.otherwise:
            return result.otherwise
    except AmbiguousError:
        pass  # whatever was applied may be applied again
    for _ in range(_ATTEMPTS):
        found = await store.get(keys.spec)
        if found is None:
            condition = absent(keys.spec)
            ops = [put_spec, *entry]
        else:
            condition = Compare(keys.spec, Field.MOD_REVISION, found.mod_revision)
            both = await _agree(store, keys, read(Spec, found.key, found.value), spec, node)
            ops = [Put(keys.spec, both), *entry] if both != found.value else entry
        if seat:
            free = [await seats.guard(store, seat)]
        if await _try(store, [condition, *free], ops):
            return found is None
    raise RendezvousError(f"rendezvous: the spec of job {keys.job!r} changed {_ATTEMPTS} times while joining")


async def _try(store: Store, compares: list[Compare], ops: list[Op]) -> bool:
    """A lost answer counts as no: all that is written here may be written twice."""
    try:
        return (await store.txn(compares, ops)).succeeded
    except AmbiguousError:
        return False


async def _agree(store: Store, keys: JobKeys, theirs: Spec, ours: Spec, node: Node) -> bytes:
    """The spec that holds for both, encoded."""
    differences = _differences(theirs, ours, node.role)
    both = encode(replace(theirs, roles={**theirs.roles, **ours.roles}))
    if not differences and theirs.policy == ours.policy:
        return both
    if not (await store.list(keys.nodes, keys_only=True)).items:
        return encode(ours)
    if not differences:
        return both  # a job's policy is its first node's
    if _launcher(theirs) != _launcher(ours):
        raise SpecMismatchError(
            f"rendezvous: job {keys.job!r} is run by {_launcher(theirs)}, and node {node.host} by {_launcher(ours)}: "
            "torchrun and elaunch agents cannot share a job; give one of them another --rdzv-id"
        )
    shown = "; ".join(
        f"{_OPTION[name]} is {mine!r} here and {other!r} in the job" for name, (other, mine) in differences.items()
    )
    raise SpecMismatchError(
        f"rendezvous: node {node.host} does not fit job {keys.job!r}: {shown}; "
        "start it with the same value or another --rdzv-id"
    )


def _launcher(spec: Spec) -> str:
    """Whose agents a spec is of: torchrun counts its restarts itself, and its plug-in leaves them open with -1."""
    return "torchrun" if spec.max_restarts < 0 else "elaunch"


def _differences(theirs: Spec, ours: Spec, role: str) -> dict[str, tuple[Any, Any]]:
    names = ("min_nodes", "max_nodes", "max_restarts", "security")
    pairs: dict[str, tuple[Any, Any]] = {name: (getattr(theirs, name), getattr(ours, name)) for name in names}
    if role in theirs.roles:
        pairs |= {name: (theirs.roles[role].get(name), value) for name, value in ours.roles[role].items()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
