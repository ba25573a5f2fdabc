"""This rank's start as it goes on: every phase is told through the page, and the ranks compare at the store.

Nothing in here may change what ``init_process_group`` does: what fails of it is only not told.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from elaunch.errors import StartCheckError
from elaunch.progress_page import Page
from elaunch.start_record import (
    CHECKED,
    COMMUNICATOR,
    IMPORTING,
    LEFT,
    PEER_DISCOVERY,
    STORE_EXCHANGE,
    TRANSPORT,
    StartRecord,
    told,
)
from elaunch.start_rules import claim_of, disagreement, packed_claim, unpacked_claim
from elaunch.worker.start_exchange import Answer, agree, clear, compare, key_of
from elaunch.worker.start_peers import unreachable
from elaunch.worker.versions import versions

OFF = "ELAUNCH_START_CHECK"
PATIENCE = 60.0  # seconds to wait for the others' records, and at most this share of the process group's timeout:
SHARE = 0.2
SMALL = 64  # ranks, of which each may read what all have
_SECONDS = {
    IMPORTING: "import_seconds",
    PEER_DISCOVERY: "rendezvous_seconds",
    STORE_EXCHANGE: "exchange_seconds",
    TRANSPORT: "communicator_seconds",
    COMMUNICATOR: "communicator_seconds",
}
_AT_ONCE = frozenset({"nccl", "xccl"})  # the connections are made along with the communicator


class Start:
    """``store`` is the generation's own while this rank's process group was made through it, else None."""

    def __init__(self, page: Page, environ: Mapping[str, str]) -> None:
        self._page = page
        self._address = environ.get("MASTER_ADDR", "")
        self._port = environ.get("ELAUNCH_STORE_PORT", "")
        self._began = time.monotonic()
        self._before = _age()
        self._rounds = 0
        self._before_this = 0  # process groups that were made at the generation's store
        self._used: list[str] = []
        self._meshes: tuple[int, int] = (0, 0)  # how many were compared at how many groups
        self.store: Any = None
        self.prefix = ""
        self.record = told(
            StartRecord(
                pid=os.getpid(),
                rank=page.rank,
                world_size=page.world_size,
                generation=_number(environ.get("ELAUNCH_GENERATION", "")),
                restart_count=_number(environ.get("TORCHELASTIC_RESTART_COUNT", "")),
                local_rank=page.local_rank,
                local_world_size=page.local_world_size,
                asymmetry=environ.get("ELAUNCH_ALLOW_ASYMMETRY") == "1",
            ),
            job=environ.get("ELAUNCH_JOB", ""),
            host=environ.get("ELAUNCH_HOST") or socket.gethostname(),
            device_id=environ.get("ELAUNCH_DEVICE_ID", ""),
            nics=environ.get("ELAUNCH_NICS", ""),
            numa_node=environ.get("ELAUNCH_NUMA", ""),
            rail=environ.get("ELAUNCH_RAIL", ""),
            topology_digest=environ.get("ELAUNCH_TOPOLOGY_DIGEST", ""),
        )
        self.tell()

    # --- what the hooks call ------------------------------------------------------------------------------------

    def asks(self, url: str, rank: int, world_size: int) -> None:
        """``init_process_group`` goes to its store."""
        self.store, self.record = None, told(self.record, shared=False)  # should the rest not be understood
        endpoint, asked_rank, asked_world, shared = self._meaning(url, rank, world_size)
        self._move(
            PEER_DISCOVERY,
            endpoint=endpoint,
            asked_rank=asked_rank,
            asked_world_size=asked_world,
            shared=shared,
            inits=self.record.inits + 1,
            error="",
        )

    def met(self, store: Any, rank: int, world_size: int) -> None:
        """The store answers."""
        self.store = store if self.record.shared else None
        self._move(STORE_EXCHANGE, asked_rank=int(rank), asked_world_size=int(world_size))

    def makes(self, backend: str, rank: int, world_size: int, timeout: float, device: str) -> None:
        """The process group is about to be made. Raises StartCheckError where the ranks do not fit together."""
        changes: dict[str, Any] = {"backend": backend, "timeout": timeout, "logical_device": device}
        changes |= {"asked_rank": rank, "asked_world_size": world_size, **versions(backend)}
        if self.record.phase == STORE_EXCHANGE:
            self.record = told(self.record, **changes)  # the page has it with the next phase
        else:  # a store that the program has opened
            changes |= {"endpoint": "a store of the program's", "shared": False, "inits": self.record.inits + 1}
            self.store = None
            self._move(STORE_EXCHANGE, **changes)
        self._compare(min(PATIENCE, SHARE * timeout))
        self._move(COMMUNICATOR if backend in _AT_ONCE else TRANSPORT, transport=_transport(backend))

    def made(self) -> None:
        """The default process group is there, and is torch's default now."""
        self._move(CHECKED)

    def left(self) -> None:
        """The default process group is gone."""
        if self.store is not None:
            clear(self.store, self._used)
        self.store, self.prefix, self._meshes = None, "", (0, 0)
        self._move(LEFT)

    def failed(self, error: BaseException) -> None:
        """``init_process_group`` raises."""
        text, record = " ".join(str(error).split()), self.record
        why = f"{type(error).__name__}: {text}"
        self._move(record.phase, error=why)
        if found := unreachable(text, self.store, self.prefix, record.asked_rank, record.asked_world_size):
            self.tell(error=f"rank {found[0]} cannot be reached at {found[1]}: {why}")

    def refuse(self, fault: str) -> StartCheckError:
        """The error to raise for ``fault``, which the leader is told of."""
        self.tell(fault=fault)
        return StartCheckError(fault)

    def tell(self, **changes: Any) -> None:
        self.record = told(self.record, **changes)
        self._page.write_start(self.record)

    def mesh_topic(self, made: int) -> str:
        """Where to compare the next mesh, after ``made`` groups: a place of its own, as not all may come to each."""
        at, times = self._meshes
        self._meshes = made, times + 1 if at == made else 0
        return f"mesh/{self.prefix}/{made}/{self._meshes[1]}"

    @property
    def whole(self) -> bool:
        """The process group is of all ranks of the job, and was made through the generation's own store."""
        return self.store is not None and self.record.asked_world_size == self.record.world_size

    # --- inside -------------------------------------------------------------------------------------------------

    def _move(self, phase: str, **changes: Any) -> None:
        """The phase before is over."""
        now = time.monotonic()
        passed, self._began = now - self._began, now
        if name := _SECONDS.get(self.record.phase):
            first = self._before if self.record.phase == IMPORTING else 0.0
            kept = getattr(self.record, name) if phase == self.record.phase else 0.0
            changes[name] = round(first + kept + passed, 6)
        self.tell(phase=phase, **changes)

    def _compare(self, seconds: float) -> None:
        self.prefix = ""
        before = self._before_this
        self._before_this += self.store is not None
        if not self.whole:
            return
        answer = self._round(packed_claim(claim_of(self.record, before)), seconds)
        # Torch's keys of a process group before, of any rank, would be taken for those of this one.
        number = answer.number if answer is not None else before
        self.prefix = f"again{number}" if number else ""
        self._before_this = number + 1
        if answer is not None and answer.fault:
            raise self.refuse(answer.fault)

    def _round(self, claim: str, seconds: float) -> Answer | None:
        """Compare once; what is there of the round before last is in nobody's way any more."""
        record, topic = self.record, f"start/{self._rounds}"
        self._rounds += 1
        if record.world_size > SMALL:
            return agree(self.store, topic, record.rank, record.world_size, claim, _judged, seconds, self._used)
        values = compare(self.store, topic, record.rank, record.world_size, claim, seconds)
        if values is None:
            return None
        if self._rounds > 1:
            self._used.append(key_of(f"start/{self._rounds - 2}", record.rank))
        return _judged(values)

    def _meaning(self, url: str, rank: int, world_size: int) -> tuple[str, int, int, bool]:
        """Endpoint, rank and world size that are asked for, and whether the endpoint is the generation's store."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        asked, of = (_number(query.get(name, "")) for name in ("rank", "world_size"))
        if parts.scheme == "env":
            asked = asked if asked >= 0 else _number(os.environ.get("RANK", ""))
            of = of if of >= 0 else _number(os.environ.get("WORLD_SIZE", ""))
            host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        elif parts.scheme == "tcp":
            host, port = parts.hostname or "", str(parts.port or "")
        else:
            host = port = ""
        ours = port == self._port and host.lower() == self._address.lower()
        at = f"{host}:{port}" if host else url
        return at, rank if rank >= 0 else asked, world_size if world_size >= 0 else of, ours


def _judged(values: Sequence[str]) -> Answer:
    claims = [unpacked_claim(text) for text in values]
    return Answer(disagreement(claims), max(claim.before for claim in claims))


def _transport(backend: str) -> str:
    """What the connections are made over, as far as the environment tells."""
    names = {"gloo": "GLOO_SOCKET_IFNAME", "nccl": "NCCL_SOCKET_IFNAME", "ucc": "UCX_NET_DEVICES"}
    found = []
    for part in backend.split(","):
        name = part.rpartition(":")[2]
        over = os.environ.get(names.get(name, ""), "")
        found.append(f"{name} over {over}" if over else name)
    return ", ".join(dict.fromkeys(found))


def _age() -> float:
    """Seconds since this process was started."""
    try:
        with open("/proc/self/stat", "rb") as file:
            stat = file.read()
        ticks = int(stat[stat.rindex(b")") + 2 :].split()[19])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1


def installed() -> bool:
    """Whether the start of this rank is to be looked at."""
    return os.environ.get(OFF, "1") != "0" and "torch.distributed.distributed_c10d" in sys.modules
