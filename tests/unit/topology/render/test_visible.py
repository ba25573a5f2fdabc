"""Which devices the user's own variables leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.topology.machine import Device
from elaunch.topology.render.ground import Ground
from elaunch.topology.render.visible import unlike, visible
from tests.unit.topology.render.machines import nvidia

FOUR = [nvidia(n) for n in range(4)]
AMD = [Device(f"0000:0{n}:00.0", n, uuid=f"GPU-a{n}", vendor="AMD") for n in range(4)]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("2,3", [2, 3]),
        ("3, 0", [3, 0]),
        ("GPU-00000002", [2]),
        ("gpu-00000001,0", [1, 0]),
        ("0,9,1", [0]),
        ("0,0,1", [0]),
        ("-1", []),
        ("", []),
        ("GPU-0000000", []),  # of several
    ],
)
def test_cudas_devices(text: str, indices: list[int]) -> None:
    found = visible({"CUDA_VISIBLE_DEVICES": text}, FOUR)
    assert found is not None
    assert [device.index for device in found] == indices


def test_without_a_variable_nothing_is_said() -> None:
    assert visible({}, FOUR) is None
    assert visible({"HIP_VISIBLE_DEVICES": "1"}, FOUR) is None


def test_amds_variables_number_what_the_one_before_leaves() -> None:
    found = visible({"ROCR_VISIBLE_DEVICES": "GPU-a3,1,0", "HIP_VISIBLE_DEVICES": "0,2"}, AMD)
    assert [device.index for device in found or ()] == [3, 0]


def test_unlike_devices_may_be_counted_otherwise() -> None:
    two = [replace(FOUR[0], model="H100"), replace(FOUR[1], model="L4")]
    (said,) = unlike(two, Ground())
    assert "2 models (H100, L4)" in said
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in said
    assert unlike(two, Ground(user={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})) == ()
    assert unlike(two, Ground(virtual=True)) == ()
    assert unlike(two[:1] * 2, Ground()) == ()


@pytest.mark.parametrize("text", ["MIG-1234", "GPU-77"])
def test_what_cannot_be_told_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=f"CUDA_VISIBLE_DEVICES={text}"):
        visible({"CUDA_VISIBLE_DEVICES": text}, [nvidia(0, "")])
