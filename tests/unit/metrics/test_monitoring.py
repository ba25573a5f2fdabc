"""What a Prometheus and a Grafana are given: only metrics that there are, and rules that they take."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elaunch.metrics.catalogue import GROUPS, METRICS
from elaunch.metrics.collector import MOST_HOSTS, MOST_PORTS, JobsCollector, Process, Scraped
from elaunch.metrics.goodput import CAUSES
from elaunch.metrics.tally import Figures
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.records import Checkpoint

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool here (Debian: prometheus)")


def used(text: str) -> set[str]:
    """The metrics that a text names."""
    found = set(re.findall(r"\belaunch_[a-z_]+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) if name not in METRICS else name for name in found}


def scraped(nodes: int = 4, slots: int = 2) -> Scraped:
    """A job in which all that there may be is there."""
    figures = Figures()
    figures.phase("abort", 3.0)
    figures.writes.observe(0.002)
    world = nodes * slots
    members = [
        pb.NodeLine(node_id=f"n{n}", host=f"h{n}", slots=slots, rank0=n * slots, attached=True) for n in range(nodes)
    ]
    traffic: dict[str, Any] = {
        "state": "active",
        "rate": 400,
        "sent": 1e9,
        "received": 1e9,
        "rose": {"symbol_error": 1},
    }
    levels = [pb.PortLevel(host=f"h{n}", port=f"mlx5_{p}:1", **traffic) for n in range(nodes) for p in range(slots)]
    reply = pb.StatusReply(
        leader_epoch=5,
        phase="running",
        generation=2,
        world_size=world,
        min_nodes=1,
        max_nodes=nodes,
        budget_left=1,
        nodes=members,
        ranks=[pb.RankLine(rank=r, node_id=f"n{r // slots}", step=r, slower=2.0 + r) for r in range(world)],
        accounts=pb.Accounts(total_seconds=10, seconds={"useful": 9, "abort": 1}, restarts={"hang": 1}),
        checkpoint=pb.LastCheckpoint(step=4, age_seconds=3.0),
        lost_seconds=3.0,
        lost_steps=2,
        usual_step_seconds=0.5,
        port_levels=levels,
        ports=[pb.PortLine(host="h0", port="mlx5_0:1", code="port_down")],
    )
    last = Checkpoint(4, "/ckpt", 2, 1, "d", bytes=9, seconds=2.0, time=1.0, blocked=0.5)
    return Scraped("job", reply, figures, last, {"run": world})


def told(*jobs: Scraped, ranks: bool = True) -> dict[str, Any]:
    process = Process("1.0", {"role": 1})
    return {family.name: family for family in JobsCollector(jobs, process, ranks=ranks).collect()}


def test_every_metric_of_the_table_can_be_told_with_its_labels() -> None:
    families = told(scraped())
    assert families.keys() == {name.removesuffix("_total") for name in METRICS}
    for name, metric in METRICS.items():
        labels = {label for s in families[name.removesuffix("_total")].samples for label in s.labels} - {"le"}
        assert labels == set(metric.all_labels), name


def test_the_dashboard_and_the_rules_name_no_other_metric() -> None:
    for file in ("elaunch.rules.yml", "grafana-dashboard.json"):
        assert used((MONITORING / file).read_text()) <= METRICS.keys(), file


def test_the_page_of_metrics_is_the_table() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(elaunch_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", text, re.M)
    wanted = [
        (metric.name, metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help)
        for group in GROUPS.values()
        for metric in group
    ]
    assert [tuple(cell.strip() for cell in row) for row in rows] == wanted
    assert all(f"`{cause}`" in text for cause in CAUSES)


def test_the_number_of_series_does_not_grow_with_the_ranks() -> None:
    few, many = told(scraped(8, 8), ranks=False), told(scraped(2048, 8), ranks=False)
    assert few.keys() == many.keys()
    for name, family in many.items():
        per_port = 1 if name.startswith("elaunch_port") else 0
        assert len(family.samples) <= max(len(few[name].samples), MOST_HOSTS, per_port * MOST_PORTS), name
    left_out = {sample.labels["kind"]: sample.value for sample in many["elaunch_series_left_out"].samples}
    assert left_out == {"host": 2048 - MOST_HOSTS, "port": 2048 * 8 - MOST_PORTS}


def test_the_dashboard_is_whole() -> None:
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert all(target["expr"] for panel in panels for target in panel["targets"])
    shown = set().union(*(used(target["expr"]) for panel in panels for target in panel["targets"]))
    assert {"elaunch_goodput_ratio", "elaunch_recovery_phase_seconds", "elaunch_restarts_total"} <= shown


@needs_promtool
@pytest.mark.slow
def test_prometheus_takes_the_rules_and_the_configuration() -> None:
    for command in (("rules", "elaunch.rules.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            [str(PROMTOOL), "check", *command], cwd=MONITORING, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.slow
def test_rules_fire_for_what_they_are_for(tmp_path: Path) -> None:
    for file in (MONITORING / "elaunch.rules.yml", Path(__file__).with_name("firing.yml")):
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "firing.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.slow
def test_prometheus_finds_nothing_to_say_of_the_metrics() -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobsCollector([scraped()], Process("1.0", {"role": 1}), ranks=True))
    text = generate_latest(registry)
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_a_counter_does_not_fall_where_the_next_leaders_clock_is_behind() -> None:
    """What goes on is counted up to now by the clock of whoever leads, and only what is booked is a counter's."""

    def lost(running: float) -> float:
        one = scraped()
        one.reply.accounts.seconds["abort"] = 5.0 + running
        family = told(replace(one, booked={"abort": 5.0}))["elaunch_lost_seconds"]
        return next(sample.value for sample in family.samples if sample.labels["cause"] == "abort")

    assert [lost(9.0), lost(2.0)] == [5.0, 5.0]
