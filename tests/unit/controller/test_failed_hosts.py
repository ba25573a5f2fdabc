"""Which hosts are told to an administrator."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.history import HOST_FAILED, failed_hosts, told
from elaunch.controller.job import Job
from elaunch.controller.node_status import RunPhase
from elaunch.rendezvous.memory import HostRecord
from tests.unit.controller.job_makers import Driver


def running() -> Driver:
    driver = Driver(2, 3)
    driver.arrive(0, 1, 2)
    driver.commit()
    for number in range(3):
        driver.tell(number, RunPhase.RUNNING, 1)
    return driver


def hosts(before: Job, after: Job) -> list[str]:
    assert [e for e in told(before, after) if e.code == HOST_FAILED] == failed_hosts(before, after)
    return [entry.subject for entry in failed_hosts(before, after)]


def test_a_host_that_is_lost_while_it_works_has_failed() -> None:
    driver = running()
    before = driver.job
    assert hosts(before, driver.lose(1)) == ["h1"]


def test_a_host_that_leaves_as_it_was_asked_to_has_not() -> None:
    driver = running()
    driver.tell(1, RunPhase.RUNNING, 1, leaving=True)
    before = driver.job
    assert hosts(before, driver.lose(1)) == []


def test_nor_has_a_spare_or_one_whose_ranks_are_done() -> None:
    driver = running()
    driver.arrive(3)
    before = driver.job
    assert hosts(before, driver.lose(3)) == []
    driver.tell(2, RunPhase.SUCCEEDED, 1)
    before = driver.job
    assert hosts(before, driver.lose(2)) == []


def test_a_host_in_quarantine_has_failed_once_each_time() -> None:
    driver = running()
    put_away = replace(driver.job, hosts=(HostRecord("h2", until=9.0, code="faults", reason="3 faults", times=1),))
    assert hosts(driver.job, put_away) == ["h2"]
    assert hosts(put_away, replace(put_away, step=5)) == []
