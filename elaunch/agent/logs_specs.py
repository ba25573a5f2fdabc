"""``--logs-specs``: the user's class, run beside the agent, says where the ranks' output goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elaunch.agent.options import LogOptions, Streams
from elaunch.agent.streams import RankStreams
from elaunch.agent.torchside import TorchSide
from elaunch.errors import StartError, UsageError

_REIFY_SECONDS = 60.0
Environments = Mapping[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Destination:
    """torch's LogsDest for one generation: the streams and the environment of each local rank, the filtered files."""

    streams: dict[int, RankStreams]
    envs: dict[int, dict[str, str]]
    filtered_stdout: Path | None
    filtered_stderr: Path | None


def arguments(options: LogOptions) -> tuple[str, str]:
    """For ``elaunch.worker.logs_specs``."""
    assert options.specs is not None
    told = {
        "log_dir": options.directory,
        "redirects": [int(s) for s in options.redirects],
        "tee": [int(s) for s in options.tee],
        "shown": sorted(options.shown) if options.shown is not None else None,
    }
    return options.specs, json.dumps(told)


async def reify(side: TorchSide, envs: Environments) -> Destination:
    """Where the output of a generation goes, by the user's class. Raises StartError."""
    try:
        return destination(await side.answer({str(n): dict(env) for n, env in envs.items()}, seconds=_REIFY_SECONDS))
    except UsageError as error:  # it is bad input, but the job runs already
        raise StartError(str(error)) from None


def destination(told: Mapping[str, Any]) -> Destination:
    """From the answer of ``elaunch.worker.logs_specs``."""
    envs = {int(n): env for n, env in told["envs"].items()}
    return Destination(
        {n: _streams(told, str(n)) for n in envs},
        envs,
        _path(told["filtered_stdout"]),
        _path(told["filtered_stderr"]),
    )


def _streams(told: Mapping[str, Any], local_rank: str) -> RankStreams:
    out, err = _path(told["stdouts"].get(local_rank)), _path(told["stderrs"].get(local_rank))
    tail = Streams.NONE
    if out is not None and _path(told["tee_stdouts"].get(local_rank)) == out:
        tail |= Streams.OUT
    if err is not None and _path(told["tee_stderrs"].get(local_rank)) == err:
        tail |= Streams.ERR
    error_file = _path(told["envs"][local_rank].get("TORCHELASTIC_ERROR_FILE") or told["error_files"].get(local_rank))
    return RankStreams(out, err, error_file if error_file != Path("/dev/null") else None, tail)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
