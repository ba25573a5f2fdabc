"""What a user's LogsSpecs says, without torch and without the user."""

from __future__ import annotations

import json
from pathlib import Path

from elaunch.agent.logs_specs import arguments, destination
from elaunch.agent.options import LogOptions, Streams
from elaunch.agent.streams import RankStreams

TOLD = {
    "stdouts": {"0": "/l/out0", "1": "", "2": "/l/out2"},
    "stderrs": {"0": "/l/err0", "1": "/l/err1"},
    "tee_stdouts": {"0": "/l/out0", "2": "/l/another"},
    "tee_stderrs": {"1": "/l/err1"},
    "error_files": {"0": "/l/e0", "1": "/l/e1", "2": "/dev/null"},
    "filtered_stdout": "/l/filtered",
    "filtered_stderr": "",
    "envs": {"0": {"TORCHELASTIC_ERROR_FILE": "/own"}, "1": {"A": "b"}, "2": {"TORCHELASTIC_ERROR_FILE": ""}},
}


def test_files_become_streams() -> None:
    to = destination(TOLD)
    assert to.streams == {
        0: RankStreams(Path("/l/out0"), Path("/l/err0"), Path("/own"), Streams.OUT),
        1: RankStreams(None, Path("/l/err1"), Path("/l/e1"), Streams.ERR),
        2: RankStreams(Path("/l/out2"), None, None, Streams.NONE),
    }
    assert to.envs[1] == {"A": "b"}
    assert (to.filtered_stdout, to.filtered_stderr) == (Path("/l/filtered"), None)


def test_the_options_reach_the_class() -> None:
    options = LogOptions(
        "/l", (Streams.OUT, Streams.NONE), (Streams.BOTH, Streams.ERR), frozenset({1, 0}), specs="mine"
    )
    name, text = arguments(options)
    assert name == "mine"
    assert json.loads(text) == {"log_dir": "/l", "redirects": [1, 0], "tee": [3, 2], "shown": [0, 1]}
