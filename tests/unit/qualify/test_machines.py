"""The machines that ranks told of, and the traffic of their ports and rails."""

from __future__ import annotations

from typing import Any

from elaunch.qualify import facts
from elaunch.qualify.machines import machines, ports, rails


def machine(host: str, **values: Any) -> dict[str, Any]:
    return {"kind": "machine", "rank": 0, "generation": 1, "host": host, "cores": 4, "digest": host * 4, **values}


def port(name: str, rail: int | None, *interfaces: str) -> dict[str, Any]:
    return {"port": name, "rail": rail, "interfaces": list(interfaces)}


def traffic(host: str, at: str, time: float, **counters: tuple[int, int, int]) -> dict[str, Any]:
    values = {
        name: {"tx_bytes": sent, "rx_bytes": got, "rx_errors": bad, "mbit": 1000}
        for name, (sent, got, bad) in counters.items()
    }
    return {"kind": "traffic", "rank": 0, "generation": 1, "at": at, "host": host, "time": time, "ports": values}


def test_each_host_has_one_entry_which_is_the_first_that_it_told() -> None:
    here = {"host": "a", "digest": "known before"}
    found = machines([here], [machine("b"), machine("a"), machine("b", digest="later"), {"kind": "loss", "rank": 0}])
    assert [one["host"] for one in found] == ["a", "b"]
    assert [one["digest"] for one in found] == ["aaaa", "bbbb"]
    assert not {"kind", "rank", "generation"} & set(found[0])
    assert machines(found, []) == found


def test_traffic_is_that_of_every_host_by_port_and_by_rail() -> None:
    """An InfiniBand port and its interface are one port of their rail; what is of no rail is in none."""
    topology = [
        machine(host, ports=[port("mlx5_0:1", 0, "ib0"), port("mlx5_1:1", 1), port("eth0", None)]) for host in "ab"
    ]
    begin = [traffic(host, "begin", 5.0, **{"mlx5_0:1": (0, 0, 0), "mlx5_1:1": (0, 0, 0)}) for host in "ab"]
    for one in begin:
        one["ports"] |= traffic("", "", 0, ib0=(0, 0, 0), eth0=(0, 0, 0), idle=(0, 0, 0))["ports"]
    end = [
        traffic("a", "end", 7.0, **{"mlx5_0:1": (2_000_000, 10, 0), "mlx5_1:1": (500_000, 0, 3)}),
        traffic("b", "end", 7.0, **{"mlx5_0:1": (1_000_000, 20, 0)}),
        traffic("c", "end", 7.0, **{"mlx5_0:1": (9_000_000, 20, 0)}),  # told no beginning
    ]
    more = {"ib0": (200_000, 0, 1), "eth0": (300_000, 0, 0), "idle": (5, 0, 0), "new": (1 << 30, 0, 0)}
    end[0]["ports"] |= traffic("", "", 0, **more)["ports"]
    rows = ports([*begin, *end], topology)
    assert [(row["host"], row["port"], row["rail"], row["errors"]) for row in rows] == [
        *(("a", "mlx5_0:1", 0, 0), ("a", "mlx5_1:1", 1, 3), ("a", "ib0", 0, 1), ("a", "eth0", None, 0)),
        ("b", "mlx5_0:1", 0, 0),
    ]
    first, second = rails(rows, topology)
    assert (first["rail"], first["ports"], first["sent"], first["received"]) == (0, 2, 3_000_000, 30)
    assert first["bytes_per_second"] == 1_500_000
    assert first["mbit"] == 2000
    assert first["utilisation"] == 0.006
    assert (second["rail"], second["ports"], second["errors"]) == (1, 1, 3)
    assert rails(rows, []) == []


def test_a_port_whose_rate_is_not_known_leaves_that_of_its_rail_open() -> None:
    topology = [machine("a", ports=[port("nic0", 0)])]
    row = {"host": "a", "port": "nic0", "rail": 0, "sent": 1, "received": 1, "errors": 0, "bytes_per_second": 5}
    (one,) = rails([{**row, "mbit": None}], topology)
    assert one["mbit"] is None
    assert one["utilisation"] is None


def test_this_machine_tells_of_itself() -> None:
    found = facts.node({"ELAUNCH_HOST": "named"})
    assert found["host"] == "named"
    assert found["cores"] >= 1
    assert found["versions"]["kernel"]
    assert {"port", "rail", "role", "interfaces"} <= set(found["ports"][0])
