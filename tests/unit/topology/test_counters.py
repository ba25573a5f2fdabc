"""What is read of ports in sysfs: everything that is there, and nothing that is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elaunch.topology.counters import PortSample, rate_of, sample
from elaunch.topology.machine import Port, PortState
from tests.unit.topology.captured import needs_captures, unpacked
from tests.unit.topology.link_tree import LinkTree

RDMA = Port("mlx5_0")
ETH = Port("eth0", rdma=False)


@pytest.fixture
def tree(tmp_path: Path) -> LinkTree:
    return LinkTree(tmp_path)


def only(root: Path, port: Port) -> PortSample:
    (found,) = sample(root, (port,))
    return found


@needs_captures
def test_captured_adapters(tmp_path: Path) -> None:
    """Three makes of adapters: words become bytes, and what each counts is found."""
    root = unpacked("procfs_class_infiniband_net.tar.gz", tmp_path)
    mlx5, mlx4, hfi1 = sample(root, (Port("mlx5_0"), Port("mlx4_0", 2), Port("hfi1_0")))
    assert (mlx5.state, mlx5.rate, mlx5.phys_state) == (PortState.ACTIVE, 25.0, "ACTIVE")
    assert (mlx5.counters["packet_seq_err"], mlx5.counters["rx_bytes"]) == (1, 18126345378 * 4)
    assert (mlx4.port, mlx4.rate, mlx4.counters["port_xmit_wait"]) == ("mlx4_0:2", 40.0, 3846)
    assert (hfi1.state, hfi1.rate, hfi1.counters["tx_bytes"]) == (PortState.ACTIVE, 100.0, 273558326543 * 4)


@needs_captures
def test_captured_counters_that_are_words_or_not_there(tmp_path: Path) -> None:
    root = unpacked("node_exporter_class_infiniband_net.tar.gz", tmp_path)
    wordy, poor, bond, eth = sample(root, (Port("i40iw0"), Port("mlx4_0", 2), Port("bond0", rdma=False), ETH))
    assert (wordy.state, wordy.rate, wordy.counters) == (PortState.ACTIVE, 10.0, {})  # "N/A (no PMA)"
    assert poor.counters == {"link_downed": 0, "link_error_recovery": 0, "tx_bytes": 0, "rx_bytes": 0}
    assert (bond.state, bond.rate) == (PortState.ACTIVE, None)  # its speed is -1
    assert (eth.rate, eth.counters["carrier_changes"]) == (1.0, 2)


def test_the_folder_sys_itself_will_do(tree: LinkTree) -> None:
    tree.rdma("mlx5_0", symbol_error=7)
    assert only(tree.root / "sys", RDMA) == only(tree.root, RDMA)
    assert only(tree.root, RDMA).counters["symbol_error"] == 7


def test_states(tree: LinkTree) -> None:
    port, eth = tree.rdma("mlx5_0"), tree.interface("eth0")
    for text, state in (("4: ACTIVE", "active"), ("1: DOWN", "down"), ("2: INIT", "init"), ("3: ARMED", "init")):
        tree.write(port, state=text)
        assert only(tree.root, RDMA).state.value == state
    tree.write(port, state="")
    assert only(tree.root, RDMA).state is PortState.UNKNOWN
    for operstate, carrier, state in (
        ("up", "1", "active"),
        ("up", "0", "down"),
        ("lowerlayerdown", "1", "down"),
        ("unknown", "1", "active"),
        ("unknown", "", "unknown"),
        ("dormant", "1", "down"),
    ):
        tree.write(eth, operstate=operstate, carrier=carrier)
        assert only(tree.root, ETH).state.value == state, (operstate, carrier)


def test_a_rate_that_is_none(tree: LinkTree) -> None:
    eth = tree.interface("eth0")
    for speed, rate in (("400000", 400.0), ("-1", None), ("0", None), ("4294967295", None), ("fast", None)):
        tree.write(eth, speed=speed)
        assert only(tree.root, ETH).rate == rate
    assert [
        rate_of(text)
        for text in ("200 Gb/sec (4X HDR)", "2.5 Gb/sec (1X SDR)", "", "4X", "0 Gb/sec", f"{10**400} Gb/sec")
    ] == [
        200.0,
        2.5,
        None,
        None,
        None,
        None,
    ]


def test_what_cannot_be_read_is_no_value(tree: LinkTree) -> None:
    counters = tree.rdma("mlx5_0") / "counters"
    (counters / "symbol_error").unlink()
    (counters / "symbol_error").mkdir()
    (counters / "link_downed").unlink()
    (counters / "link_downed").symlink_to("link_downed")
    (counters / "port_rcv_errors").write_bytes(b"\xff\xfe\x00")
    tree.write(counters, local_link_integrity_errors=str(2**64 - 1))  # of a device that does not answer
    tree.write(counters, link_error_recovery="-3", port_xmit_data="9" * 30)
    assert only(tree.root, RDMA).counters == {"rx_bytes": 0}


def test_a_device_that_is_gone(tree: LinkTree) -> None:
    folder = tree.rdma("mlx5_0")
    shutil.rmtree(folder)
    assert only(tree.root, RDMA) == PortSample("mlx5_0:1", present=False)
    assert not only(tree.root / "nowhere", ETH).present


def test_the_carrier_of_its_interface_is_an_rdma_ports_too(tree: LinkTree) -> None:
    tree.rdma("mlx5_0")
    tree.interface("ens1")
    assert only(tree.root, Port("mlx5_0", interfaces=("ens1",))).counters["carrier_changes"] == 2
    assert "carrier_changes" not in only(tree.root, Port("mlx5_0", interfaces=("ens2",))).counters


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60, deadline=None
)
@given(
    st.dictionaries(st.sampled_from(["state", "rate", "phys_state"]), st.binary(max_size=60)), st.binary(max_size=40)
)
def test_nothing_that_a_file_may_hold_is_an_error(tree: LinkTree, files: dict[str, bytes], counter: bytes) -> None:
    folder = tree.rdma("mlx5_0")
    for name, value in files.items():
        (folder / name).write_bytes(value)
    (folder / "counters/symbol_error").write_bytes(counter)
    found = only(tree.root, RDMA)
    assert found.present
    assert all(value >= 0 for value in found.counters.values())
