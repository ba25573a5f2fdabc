"""The agent of ``elaunch.launch``: as ``elaunch``, and the end is told to the program that started it.

Arguments: the descriptor to tell it to, the pid of that program, then those of ``elaunch``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from elaunch.cli.main import conduct
from elaunch.cli.report import render
from elaunch.errors import ElaunchError, StartError
from elaunch.parent import end_with_parent
from elaunch.worker.frames import CALLED


def main(argv: Sequence[str]) -> int:
    """Run the agent; its exit code."""
    fd, parent, words = int(argv[0]), int(argv[1]), argv[2:]
    os.set_inheritable(fd, False)
    if not end_with_parent(parent):
        return 1
    told = _told(words)
    with contextlib.suppress(OSError), os.fdopen(fd, "w") as answer:  # nobody may be there to hear it
        json.dump(told, answer)
    exit_code: int = told["exit_code"]
    return exit_code


def _told(words: Sequence[str]) -> dict[str, Any]:
    try:
        options, outcome = conduct(words)
    except ElaunchError as error:
        return {"error": error.code, "text": str(error), "exit_code": error.exit_code}
    except OSError as error:
        text = f"this machine does not let the agent work: {error}"
        return {"error": StartError.code, "text": text, "exit_code": StartError.exit_code}
    target = os.environ.get(CALLED, options.program.target)
    return {
        "name": target,
        "exit_code": outcome.exit_code,
        "code": outcome.code,
        "reason": outcome.reason,
        "report": render(target, outcome.failures, failed=outcome.failed) if outcome.failures else "",
        "failures": [_failure(one) for one in sorted(outcome.failures, key=lambda one: (one.time, one.rank))],
    }


def _failure(one: Any) -> dict[str, Any]:
    """In the words of torch's ProcessFailure."""
    told = dataclasses.asdict(one)
    told["exitcode"], told["timestamp"] = told.pop("exit_code"), int(told.pop("time"))
    return told
