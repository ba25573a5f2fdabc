"""Counting devices in made-up system folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elaunch.cli import devices
from elaunch.cli.devices import Build, count_slots, parse_build, visible


@pytest.mark.parametrize(
    ("variable", "count"),
    [
        (None, 8),
        ("", 0),
        ("0,1", 2),
        ("3", 1),
        ("0,9,1", 1),
        ("-1", 0),
        ("0,-1,2", 1),
        ("0,0,1", 1),
        ("GPU-aa,GPU-bb", 2),
        ("MIG-aa", 1),
        ("NoDevFiles", 0),
        (" 1 , 2 ", 2),
    ],
)
def test_visible_devices(variable: str | None, count: int) -> None:
    assert visible(variable, 8) == count


def test_nvidia_by_library_then_nodes_then_driver(tmp_path: Path) -> None:
    gpus = tmp_path / "proc/driver/nvidia/gpus"
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (gpus / bus).mkdir(parents=True)
    assert devices.nvidia_count(tmp_path, lambda: None) == 2
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    assert devices.nvidia_count(tmp_path, lambda: None) == 1
    assert devices.nvidia_count(tmp_path, lambda: 4) == 4


def test_amd_counts_nodes_with_simd_units_that_can_be_opened(tmp_path: Path) -> None:
    for number, (simd, minor) in enumerate([(0, 0), (304, 128), (304, 129)]):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\nsimd_count {simd}\ndrm_render_minor {minor}\n")
    (tmp_path / "dev/dri").mkdir(parents=True)
    (tmp_path / "dev/dri/renderD128").touch()
    assert devices.rocm_count(tmp_path) == 1


def test_intel_counts_cards_of_its_vendor(tmp_path: Path) -> None:
    for card, vendor in (
        ("card0", "0x8086"),
        ("card1", "0x8086"),
        ("card2", "0x1a03"),
        ("card0-DP-1", "0x8086"),
    ):
        device = tmp_path / "sys/class/drm" / card / "device"
        device.mkdir(parents=True)
        (device / "vendor").write_text(vendor + "\n")
    assert devices.xpu_count({}, Build(), tmp_path) == 2
    assert devices.xpu_count({"ZE_AFFINITY_MASK": "0.0,0.1"}, Build(), tmp_path) == 1
    assert devices.xpu_count({}, Build(xpu=False), tmp_path) == 0


def test_build_is_read_from_text() -> None:
    text = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\nxpu = None\n"
    assert parse_build(text) == Build(cuda=True, hip=False, xpu=False)
    assert parse_build("") == Build()


def test_cpu_is_what_this_process_may_use() -> None:
    assert count_slots("cpu", {}) == len(os.sched_getaffinity(0))


def test_auto_falls_back_to_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "torch_build", lambda: Build(False, False, False))
    assert count_slots("auto", {}) == devices.cpu_count()
    with pytest.raises(ValueError, match="without gpu support"):
        count_slots("gpu", {})


def test_auto_takes_gpus_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "torch_build", Build)
    monkeypatch.setattr(devices, "_nvml_count", lambda: 8)
    assert count_slots("auto", {}) == count_slots("gpu", {}) == 8
    assert count_slots("gpu", {"CUDA_VISIBLE_DEVICES": "2,3"}) == 2
    with pytest.raises(ValueError, match="no gpu is visible"):
        count_slots("gpu", {"CUDA_VISIBLE_DEVICES": ""})
