"""A batch job of a test: submitted, watched by what its ranks write down, and ended."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.slurm.cluster import ROOT, Cluster, wait_until

PROGRAM = ROOT / "tests" / "programs" / "ledgering.py"
SCRIPTS = ROOT / "deploy" / "slurm"
_STANDING = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED")
Event = dict[str, Any]


@dataclass
class Batch:
    """``out`` is a folder that all hosts see."""

    cluster: Cluster
    out: Path
    jobs: list[str] = field(default_factory=list)

    def submit(self, script: Path, *words: str, options: tuple[str, ...] = (), **env: str) -> str:
        """Submit ``script`` with the arguments ``words``; ``options`` are sbatch's. The job's number."""
        log = f"--output={self.out}/log-%a" if "--array" in script.read_text() else f"--output={self.out}/log"
        line = ["sbatch", "--parsable", log, *options, str(script), *words]
        self.jobs.append(self.cluster.run(*line, **{"OUT": str(self.out), **env}).strip())
        return self.jobs[-1]

    def train(self, script: str, *words: str, options: tuple[str, ...] = (), **env: str) -> str:
        """One of the ready scripts with the program that counts steps."""
        return self.submit(SCRIPTS / script, "--start=exec", *words, str(PROGRAM), options=options, **env)

    def events(self, kind: str | None = None, **values: Any) -> list[Event]:
        """What the ranks wrote down, in that order."""
        path = self.out / "starts.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        wanted = {**({"event": kind} if kind else {}), **values}
        return [e for line in lines if line.endswith("}") and wanted.items() <= (e := json.loads(line)).items()]

    def started(self, ranks: int, seconds: float = 120.0, after: int = 0, **values: Any) -> list[Event]:
        """Wait until so many ranks of one generation have started, and tell of them in the order of their ranks.

        It is one after the generation ``after``.
        """

        def whole() -> list[Event]:
            found = [e for e in self.events("start", world=ranks, **values) if e["generation"] > after]
            newest = max((e["generation"] for e in found), default=0)
            last = [e for e in found if e["generation"] == newest]
            return sorted(last, key=lambda e: e["rank"]) if len(last) == ranks else []

        return self.wait(f"{ranks} ranks with {values}", whole, seconds)

    def step_of(self) -> int:
        """The step of the checkpoint, 0 where there is none."""
        saved = self.out / "checkpoint.json"
        return int(json.loads(saved.read_text())["step"]) if saved.exists() else 0

    def passes(self, step: int, seconds: float = 120.0) -> int:
        """Wait until there is a checkpoint of ``step`` or later; its step."""
        return self.wait(f"a checkpoint of step {step}", lambda: self.step_of() >= step and self.step_of(), seconds)

    def state(self, job: str | None = None) -> str:
        """As Slurm has it."""
        return self._said(job or self.jobs[-1], "JobState")

    def _said(self, job: str, field: str) -> str:
        found = re.search(rf"\b{field}=(\S+)", self.cluster.run("scontrol", "show", "job", "-o", job, check=False))
        return found[1] if found else ""

    def becomes(self, *states: str, job: str | None = None, seconds: float = 120.0) -> str:
        """Wait until Slurm has the job in one of ``states``."""
        return self.wait(f"the job {states}", lambda: (s := self.state(job)) in states and s, seconds)

    def at_once(self, job: str | None = None) -> None:
        """Start a job now that Slurm has put back for two minutes, as it does with each that it starts again.

        Where they are over, Slurm has started it by itself.
        """
        job = job or self.jobs[-1]

        def again() -> bool:
            return self._said(job, "Restarts") not in ("", "0") and self.state(job) == "RUNNING"

        self.wait("the job to be put back", lambda: self.state(job) == "PENDING" or again())
        if again():
            return
        time.sleep(2.5)  # what starts in the very second in which it was ended, slurmd takes for what was ended

        def begun() -> bool:
            self.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
            return self.state(job) in ("RUNNING", "COMPLETED")

        self.wait("the job's next start", begun)

    def wait(self, what: str, condition: Any, seconds: float = 120.0) -> Any:
        try:
            return wait_until(what, condition, seconds)
        except AssertionError as error:
            queue = self.cluster.run("squeue", "-a", check=False)
            nodes = self.cluster.run("sinfo", "-N", "-p", "main", check=False)
            raise AssertionError(f"{error}\n{queue}\n{nodes}\n{self.log()}\n{self.events()}") from None

    def log(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')}" for path in self.out.glob("log*"))

    def close(self) -> None:
        """End all jobs, and see that nothing of them runs on any host."""
        for job in self.jobs:
            self.cluster.run("scancel", job, check=False)
            self.wait(f"job {job} to be over", lambda job=job: self.state(job) not in _STANDING)
            self.nothing_runs(job)

    def nothing_runs(self, job: str) -> None:
        """No program of the job is left, on whichever host.

        A keeper whose etcd has lost its majority while a member was being added gives up after a minute.
        """
        try:
            wait_until("no program left on any host", lambda: not self.cluster.programs(job), 180)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.cluster.programs(job)}\n{self.log()}") from None
