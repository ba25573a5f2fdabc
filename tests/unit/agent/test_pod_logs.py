"""Whose logs are shown, and of which container, with a kubectl that says what it is asked for."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from elaunch.agent import pod_logs
from elaunch.agent.pod_logs import Selection, show


def kubectl(folder: Path, *pods: tuple[str, tuple[str, ...]]) -> tuple[str, ...]:
    """One that knows pods by name and containers, each of which has ended."""
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": container} for container in containers]},
            "status": {"phase": "Succeeded"},
        }
        for name, containers in pods
    ]
    (folder / "pods.json").write_text(json.dumps({"items": items}))
    script = folder / "kubectl"
    script.write_text(f'#!/bin/sh\nif [ "$1" = get ]; then cat {folder}/pods.json; else echo "$3"; fi\n')
    script.chmod(0o755)
    return (str(script),)


def test_the_container_that_runs_elaunch_is_shown_whatever_it_is_called(tmp_path: Path) -> None:
    said = io.StringIO()
    named, unnamed = ("a-0-1", ("beside", "elaunch")), ("a-1-1", ("train", "beside"))
    assert show(Selection(kubectl(tmp_path, named, unnamed), "x=a"), said) is None
    assert sorted(said.getvalue().splitlines()) == ["[a-0-1] --container=elaunch", "[a-1-1] --container=train"]


def test_of_more_pods_than_can_be_read_at_once_none_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_logs, "_MOST", 2)
    monkeypatch.setattr(pod_logs, "LOOK", 0.05)
    said = io.StringIO()
    pods = [(f"a-{slot}-1", ("elaunch",)) for slot in range(5)]
    assert show(Selection(kubectl(tmp_path, *pods), "x=a"), said) is None
    assert sorted(line.split()[0] for line in said.getvalue().splitlines()) == [f"[{name}]" for name, _ in pods]
