"""From a Start command to ranks: environment, streams and arguments of each, by this node's options."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elaunch.agent.aside import aside
from elaunch.agent.bound import Binds, Bound
from elaunch.agent.environment import (
    Place,
    line_prefix,
    substitute,
    with_thread_limit,
    worker_environment,
)
from elaunch.agent.events import EventLog
from elaunch.agent.evidence import Evidence, collect
from elaunch.agent.exit_reports import UNRESPONSIVE, ExitReports
from elaunch.agent.inject_pages import InjectPages
from elaunch.agent.logs_specs import Destination, reify
from elaunch.agent.mailbox import Mailbox
from elaunch.agent.options import LaunchOptions, StartMode
from elaunch.agent.output import Output
from elaunch.agent.program import Program
from elaunch.agent.progress import Pages
from elaunch.agent.running_time import RunningTime
from elaunch.agent.spawner import Exit, RankStart
from elaunch.agent.standing import group_of, place_of
from elaunch.agent.status import StatusBoard
from elaunch.agent.streams import LogFolder, RankStreams, cannot_make
from elaunch.agent.torchside import TorchSide
from elaunch.agent.watchdog import FILE as TIMER_FILE
from elaunch.agent.watchdog import Watchdog
from elaunch.agent.witness import Witness
from elaunch.controller.commands import Start
from elaunch.deadline_page import DEADLINE
from elaunch.rendezvous.records import Reason
from elaunch.rendezvous.state import RankExit
from elaunch.topology.render.ground import TOLD

HIDDEN_FROM_RANKS = ("ELAUNCH_ETCD_PASSWORD",)
LINE_PREFIX = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"

EVIDENCE_SECONDS = 3.0
LOG_SECONDS = 5.0  # for a file system to make a few folders


class LaunchPreparation:
    """What the agent knows of its ranks before they start, and of their exits after.

    ``cpus`` are those of each local rank where ``--numa-binding`` was given, ``logs_specs`` what runs the class of
    ``--logs-specs``. ``scratch`` is a folder that goes with the agent. ``pages`` are where the ranks tell of their
    progress, of ages by ``running_time``; ``mailbox`` puts on the ``board`` what they tell of checkpoints. ``deadline``
    is the file of the page with the lease's deadlines. ``binder`` says what the ranks of a generation are bound to,
    None: to nothing.
    """

    def __init__(
        self,
        options: LaunchOptions,
        environ: Mapping[str, str],
        scratch: Path | None = None,
        watchdog: Watchdog | None = None,
        board: StatusBoard | None = None,
        deadline: str = "",
    ) -> None:
        hidden = (*HIDDEN_FROM_RANKS, *TOLD)  # the latter of an elaunch around this one
        shown = {name: value for name, value in environ.items() if name not in hidden}
        self.binder: Binds | None = None
        self.env, self.warning = with_thread_limit(shown, options.slots)
        if watchdog is not None:
            self.env[TIMER_FILE] = str(watchdog.path)
        self._deadline = deadline
        self.node_id = ""
        self.pages = Pages()
        self.running_time = RunningTime()
        self.inject_pages = InjectPages() if options.allow_injection else None
        self.mailbox = Mailbox(self.pages, board or StatusBoard())
        self.folder = LogFolder(options.job, options.logs, scratch)
        self.events = EventLog(options)
        self.logs_specs: TorchSide | None = None
        self.cpus: Sequence[tuple[int, ...]] = ()
        self._options = options
        self._streams: dict[int, RankStreams] = {}
        self._reports = ExitReports(watchdog)

    @property
    def start_mode(self) -> StartMode:
        return self._options.start

    async def ranks(self, start: Start) -> tuple[list[RankStart], Output]:
        """The ranks of a generation, and what shows their output. Raises StartError, NoRouteError."""
        options = self._options
        group = group_of(start, options, self.node_id)
        bound = await self._bound(start)
        places = [place_of(start, options, local_rank) for local_rank in range(options.slots)]
        envs = {p.local_rank: {**worker_environment(self.env, p, group), **bound[p.local_rank].env} for p in places}
        # torchrun hands the class of --logs-specs what it sets itself, and no more.
        own = {*worker_environment({}, places[0], group), "OMP_NUM_THREADS"}
        to = await self._destination(start, envs, own)
        self._streams = to.streams
        self.pages.open(start.rank0, options.slots, start.generation, start.world_size)
        inject = self.inject_pages
        if inject is not None:
            inject.open(start.rank0, options.slots)
        self._reports.begin()
        own_env = {DEADLINE: self._deadline} if self._deadline else {}
        pages = {n: self.pages.env(n) | (inject.env(n) if inject is not None else {}) for n in range(options.slots)}
        ranks = [
            self._rank(p, {**to.envs[p.local_rank], **pages[p.local_rank], **own_env}, bound[p.local_rank])
            for p in places
        ]
        prefixes = {p.local_rank: line_prefix(self.env.get(LINE_PREFIX), p) for p in places}
        return ranks, Output(to, prefixes, options.logs)

    async def _bound(self, start: Start) -> list[Bound]:
        if self.binder is None:
            return [Bound({}) for _ in range(self._options.slots)]
        notes = [(note.interface, note.text) for note in start.unreachable]
        return await self.binder.bind(start.generation, start.group_world_size, start.avoid_ports, notes)

    async def _destination(self, start: Start, envs: dict[int, dict[str, str]], own: set[str]) -> Destination:
        """Where the output goes: by the user's class where there is one."""
        if self.logs_specs is not None:
            shown = {n: {k: v for k, v in env.items() if k in own} for n, env in envs.items()}
            to = await reify(self.logs_specs, shown)
            return replace(to, envs={n: {**env, **to.envs[n]} for n, env in envs.items()})
        streams = await self._log_streams(start.restart_count)
        files = {n: str(s.error_file or "") for n, s in streams.items()}
        envs = {n: {**env, "TORCHELASTIC_ERROR_FILE": files[n]} for n, env in envs.items()}
        attempt = self.folder.attempt
        out, err = (attempt / f"filtered_{name}.log" if attempt else None for name in ("stdout", "stderr"))
        return Destination(streams, envs, out, err)

    async def _log_streams(self, restart_count: int) -> dict[int, RankStreams]:
        """In the log folder, or elsewhere: a job that runs already does not end for want of it."""
        folder, slots, why = self.folder, self._options.slots, ""
        for elsewhere in (False, True):
            try:
                make = functools.partial(folder.make, restart_count, slots, elsewhere=elsewhere)
                return folder.take(await aside(make, LOG_SECONDS), why)
            except (OSError, asyncio.TimeoutError) as error:
                if folder.path is None:
                    raise cannot_make(str(error) or UNRESPONSIVE) from error
                why = why or str(error) or UNRESPONSIVE
        return folder.take(folder.without_files(slots), why)

    def ahead(self) -> None:
        """Ranks are being stopped: what can be found out for the next ones meanwhile."""
        if self.binder is not None:
            self.binder.ahead()

    async def look(self) -> None:
        """See whether there is something wrong with the log folder, for what is told of an exit; within a second."""
        await self._reports.look(self.folder)

    def started(self, start: Start, pids: Mapping[int, int]) -> None:
        """The ranks of a generation run now."""
        self.pages.started(pids)
        self.events.started(start, pids)

    def witnesses(self) -> list[Witness]:
        """The ranks that run, to be asked for evidence."""
        now = self.running_time.now()
        return self.pages.witnesses(now, {n: streams.stderr for n, streams in self._streams.items()})

    async def evidence(self, generation: int, why: Reason) -> Evidence:
        """Save what can be known of the ranks that run: a few seconds at most, whatever state they are in."""
        return await collect(self.folder.evidence(generation), self.witnesses(), EVIDENCE_SECONDS, why)

    def describe(self, end: Exit, start: Start) -> RankExit:
        """What is known of an exit: code, time, and the error file if the rank left one."""
        if self.inject_pages is not None:
            self.inject_pages.ended(start.rank0 + end.local_rank)
        self.mailbox.ended(start.rank0 + end.local_rank)  # what it told before its end is to be told before it
        streams = self._streams.get(end.local_rank)
        described = self._reports.describe(end, start, streams.error_file if streams else None)
        self.events.ended(described)
        return described

    def failing(self, local_ranks: Iterable[int]) -> dict[int, float]:
        """When ranks left an error file, in seconds since the epoch: those of them that have one, ended or not."""
        streams = {n: self._streams[n] for n in local_ranks if n in self._streams}
        return self._reports.failing({n: one.error_file for n, one in streams.items()})

    def _rank(self, place: Place, env: Mapping[str, str], bound: Bound) -> RankStart:
        program = self._options.program
        streams = self._streams[place.local_rank]
        args = substitute(program.args, place.local_rank)
        scheduled = self._options.scheduled
        env = {**env, **({"ELAUNCH_SCHEDULER": scheduled.scheduler} if scheduled is not None else {})}
        return RankStart(
            local_rank=place.local_rank,
            rank=place.rank,
            program=Program(program.kind, program.target, args, program.interpreter),
            env=env,
            stdout=streams.stdout,
            stderr=streams.stderr,
            cpus=self.cpus[place.local_rank] if self.cpus else bound.cpus,
            memory=bound.memory,
            ignored=(scheduled.notice_signal,) if scheduled is not None and scheduled.notice_signal else (),
        )
