"""What ranks are to be bound to, as the command line says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.cli.options import parse
from elaunch.errors import UsageError
from elaunch.topology.binding import Wishes


def wishes(script: str, *arguments: str, ranks: int = 2) -> Wishes:
    return parse([f"--nproc-per-node={ranks}", *arguments, script], {}).binding.wishes


def test_by_default_nothing_is_asked_for(script: str) -> None:
    options = parse([script], {})
    assert options.binding.wishes == Wishes()
    assert options.binding.machine is None
    assert not options.allow_asymmetry


def test_all_of_it(script: str) -> None:
    found = wishes(
        script,
        "--nic-policy=local",
        "--rails=8",
        "--nics-per-rank=2",
        "--exclude-nic=mlx5_bond_0, eth0,mlx5_1:2",
        "--cpu-bind=core",
        "--device-map=1,0000:3B:00.0",
        "--nic-bandwidth=400",
    )
    assert found == Wishes(
        nic_policy="local",
        rails=8,
        nics_per_rank=2,
        exclude=("mlx5_bond_0", "eth0", "mlx5_1:2"),
        cpu_bind="core",
        device_map=("1", "0000:3b:00.0"),
        bandwidth=400.0,
    )
    assert parse(["--allow-asymmetry", script], {}).allow_asymmetry
    assert parse([script], {"PET_NIC_POLICY": "all"}).binding.wishes.nic_policy == "all"


def test_a_map_of_local_ranks(script: str) -> None:
    text = "0 = mlx5_0 , mlx5_1 ; 1=mlx5_2;"
    assert wishes(script, f"--nic-policy={text}").nic_policy == text


def test_a_file_of_nics(script: str, tmp_path: Path) -> None:
    file = tmp_path / "nics"
    file.write_text("# by hand\n0 = mlx5_0, mlx5_1\n\n3b:00.0=mlx5_2:1  # the odd one\nGPU-1a2b3c4d-3c = eth0\n")
    assert wishes(script, f"--nic-map={file}").nic_map == (
        ("0", ("mlx5_0", "mlx5_1")),
        ("0000:3b:00.0", ("mlx5_2:1",)),
        ("GPU-1a2b3c4d-3c", ("eth0",)),
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nic-policy=nearest"], "--nic-policy=nearest: expected auto, local, all, or a map"),
        (["--nic-policy=0=mlx5_0;0=mlx5_1"], "--nic-policy, part 2: 0 stands at part 1 as well"),
        (["--nic-policy=0=;1=mlx5_1"], "'' is no name of a NIC"),
        (["--nic-policy=gpu0=mlx5_1"], "'gpu0' is no local rank"),
        (["--nic-policy=;"], "expected auto, local, all, or a map"),
        (["--exclude-nic=^mlx5_0"], "'^mlx5_0' is no name of a NIC"),
        (["--exclude-nic="], "'' is no name of a NIC"),
        (["--rails=0"], "--rails=0: expected 1 or more"),
        (["--nics-per-rank=-1"], "--nics-per-rank=-1: expected 1 or more"),
        (["--nic-bandwidth=0"], "--nic-bandwidth=0: expected Gbit/s"),
        (["--nic-bandwidth=nan"], "--nic-bandwidth=nan: expected a number"),
        (["--cpu-bind=socket"], "--cpu-bind=socket: expected one of none, numa, core"),
        (["--device-map=0"], "--device-map=0: 1 devices for 2 local ranks"),
        (["--device-map=0,0"], "0 stands there twice"),
        (["--device-map=0,cuda:1"], "'cuda:1' is no device"),
        (["--device-map=0,MIG-1234"], "is no device"),
        (["--nic-map=/no/such/file"], "--nic-map /no/such/file: No such file"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(script: str, arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(["--nproc-per-node=2", *arguments, script], {})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"0 mlx5_0\n", b"\xff\xfe", b"0=mlx5_0\n" * 200_000])
def test_a_file_that_is_no_map_is_refused(script: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "nics"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="--nic-map "):
        parse([f"--nic-map={file}", script], {})


def test_cpus_are_bound_in_one_way(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elaunch.cli.settings.gpu_count", lambda *_: 8)
    with pytest.raises(UsageError, match="--cpu-bind=numa: --numa-binding says it too"):
        parse(["--numa-binding=node", "--cpu-bind=numa", script], {})
    assert parse(["--numa-binding=node", script], {}).numa_binding == "node"
