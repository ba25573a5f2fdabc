"""Runs a user's LogsSpecs, as torchrun would: ``python logs_specs.py NAME OPTIONS``.

``OPTIONS`` is JSON: ``log_dir``, ``redirects``, ``tee`` (by local rank), ``shown``. One object lives as long as the
job, as with torchrun. For each line of input, the environment of each local rank, it answers with the files.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, TextIO

GROUP = "torchrun.logs_specs"


def load(name: str, options: dict[str, Any]) -> Any:
    """The user's LogsSpecs, made as torchrun makes it."""
    from torch.distributed.elastic.multiprocessing import Std

    (entry,) = entry_points(group=GROUP, name=name)
    return entry.load()(
        log_dir=options["log_dir"],
        redirects={n: Std(s) for n, s in enumerate(options["redirects"])},
        tee={n: Std(s) for n, s in enumerate(options["tee"])},
        local_ranks_filter=set(options["shown"]) if options["shown"] is not None else None,
    )


def reify(specs: Any, envs: dict[int, dict[str, str]]) -> dict[str, Any]:
    """The LogsDest for one generation, and the environments, which LogsSpecs may have changed."""
    destination = dataclasses.asdict(specs.reify(envs))
    return {**destination, "envs": envs}


def replies(name: str, options: dict[str, Any], questions: TextIO) -> Iterator[dict[str, Any]]:
    """The first is about the loading. The line with an error is the last."""
    doing = "load"
    try:
        specs = load(name, options)
        yield {"ok": True}
        doing = "reify"
        for line in questions:
            envs = {int(local_rank): env for local_rank, env in json.loads(line).items()}
            yield {"ok": reify(specs, envs)}
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        yield {"error": f"--logs-specs={name}: {doing}: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    del sys.path[0]  # this file's folder: its modules are not top-level ones
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the user's code prints is no answer
    for reply in replies(sys.argv[1], json.loads(sys.argv[2]), sys.stdin):
        print(json.dumps(reply), file=out, flush=True)
