"""What agents leave on a host so that their jobs are found there: private, without secrets, gone with the agent."""

from __future__ import annotations

import json
import os
from pathlib import Path

from elaunch.agent.local_jobs import LocalJob, local_jobs, registered
from elaunch.agent.options import EtcdAccess

ENDPOINTS = ("127.0.0.1:5",)
ACCESS = EtcdAccess("https", "/ca.pem", user="ada", password="swordfish")


def test_a_job_is_found_while_its_agent_runs(tmp_path: Path) -> None:
    place = tmp_path / "run" / "jobs"
    assert local_jobs(place) == []
    with registered("a job/ä", lambda: ENDPOINTS, ACCESS, place):
        (found,) = local_jobs(place)
        assert found == LocalJob("a job/ä", os.getpid(), ENDPOINTS, EtcdAccess("https", "/ca.pem", user="ada"))
        (file,) = place.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        assert place.stat().st_mode & 0o777 == 0o700
        assert "swordfish" not in file.read_text()
    assert local_jobs(place) == []
    assert not list(place.iterdir())


def test_an_agent_that_was_killed_leaves_nothing_that_misleads(tmp_path: Path) -> None:
    place = tmp_path / "run" / "jobs"
    with registered("job", lambda: ENDPOINTS, ACCESS, place):
        (file,) = place.iterdir()
        record = json.loads(file.read_text())
        other = {**record, "started": record["started"] - 1}  # its pid is another process's now
        (place / "1.json").write_text(json.dumps(other))
        (place / "2.json").write_text(json.dumps({**record, "pid": 2**22 + 1}))
        (place / "3.json").write_text("no JSON")
        (place / "4.json").write_text(json.dumps({**other, "namespace": "pid:[1]"}))
        assert [job.pid for job in local_jobs(place)] == [os.getpid()]
        left = {path.name for path in place.iterdir()}
        assert left == {file.name, "3.json", "4.json"}, "another container's are not ours to judge"


def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    place = tmp_path / "run" / "jobs"
    place.mkdir(parents=True)
    place.chmod(0o777)
    (place / "9.json").write_text("{}")
    with registered("job", lambda: ENDPOINTS, ACCESS, place):
        assert local_jobs(place) == []
        assert [path.name for path in place.iterdir()] == ["9.json"]
