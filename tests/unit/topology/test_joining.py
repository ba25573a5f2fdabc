"""A machine as a file describes it, with what only its own kernel can tell."""

from __future__ import annotations

from dataclasses import replace

from elaunch.topology.binding import Wishes
from elaunch.topology.joining import joined
from elaunch.topology.level import Level
from elaunch.topology.machine import Device, LinkLayer, NumaNode, PciFunction, Port, PortState, ToldLevel, Topology
from elaunch.topology.policy import bind

GPUS = [f"0000:{n:02x}:00.0" for n in (0x10, 0x20)]
NICS = [f"0000:{n:02x}:00.0" for n in (0x11, 0x21)]
HOST = Topology(
    "sysfs",
    devices=tuple(Device(at, n, at, f"GPU-{n}", "NVIDIA", "H100", numa=n) for n, at in enumerate(GPUS)),
    ports=tuple(
        Port(
            f"mlx5_{n}",
            pci=at,
            numa=n,
            interfaces=(f"ib{n}",),
            link_layer=LinkLayer.INFINIBAND,
            state=PortState.ACTIVE,
            addresses=(f"10.0.0.{n}",),
            rate=25.0,
        )
        for n, at in enumerate(NICS)
    ),
    functions=tuple(PciFunction(at, root="pci0000:00") for at in (*GPUS, *NICS)),
    numa=(NumaNode(0, (0, 1)), NumaNode(1, (2, 3))),
    allowed_cpus=(0, 1, 2),
)
FILE = Topology(
    "nccl-xml",
    devices=tuple(Device(at, n, at, numa=n) for n, at in enumerate(GPUS)),
    ports=tuple(
        Port(f"mlx5_{n}", pci=at, numa=n, rate=400.0, gdr=True, state=PortState.UNKNOWN) for n, at in enumerate(NICS)
    ),
    functions=tuple(
        PciFunction(at, parent=f"ffff:{n:02x}:00.0", root="") for n in range(2) for at in (GPUS[n], NICS[n])
    ),
    numa=(NumaNode(0, (0, 1)), NumaNode(1, (2, 3))),
)


def test_the_tree_and_the_rates_are_the_files_the_rest_the_kernels() -> None:
    machine, said = joined(FILE, HOST)
    assert said == ()
    assert [(p.rate, p.state, p.addresses, p.interfaces, p.gdr) for p in machine.ports] == [
        (400.0, PortState.ACTIVE, (f"10.0.0.{n}",), (f"ib{n}",), True) for n in range(2)
    ]
    assert [(d.uuid, d.model, d.numa) for d in machine.devices] == [("GPU-0", "H100", 0), ("GPU-1", "H100", 1)]
    assert {f.address: f.parent for f in machine.functions}[GPUS[1]] == "ffff:01:00.0"
    assert machine.allowed_cpus == (0, 1, 2)


def test_what_the_file_leaves_out_is_there_all_the_same() -> None:
    machine, said = joined(replace(FILE, devices=(), ports=FILE.ports[:1]), HOST)
    assert (said, machine.devices) == ((), HOST.devices)
    assert [port.nic for port in machine.ports] == ["mlx5_0", "mlx5_1"]


def test_nodes_that_a_vendor_swapped_are_told_and_not_believed() -> None:
    swapped = replace(FILE, devices=tuple(replace(d, numa=1 - (d.numa or 0)) for d in FILE.devices))
    machine, said = joined(swapped, HOST)
    assert said == (
        f"the file puts {GPUS[0]} on NUMA node 1, the kernel on 0, and so on for 2 devices:"
        " CPUs and memory are bound by the kernel's word",
    )
    bound = bind(machine, 2, Wishes(cpu_bind="numa", network=False)).ranks
    assert [(rank.cpus, rank.memory) for rank in bound] == [((0, 1), 0), ((2,), 1)]


def test_masks_that_differ_are_told_and_not_believed() -> None:
    wrong = replace(FILE, numa=(NumaNode(0, (0, 1, 2, 3)), NumaNode(1, (2, 3))))
    machine, said = joined(wrong, HOST)
    assert said == ("the file gives NUMA node 0 the CPUs 0-3, the kernel 0-1: the kernel's count",)
    assert machine.numa == HOST.numa


def test_where_the_kernel_knows_no_node_the_file_does() -> None:
    blind = replace(HOST, devices=tuple(replace(d, numa=None) for d in HOST.devices))
    machine, said = joined(FILE, blind)
    assert (said, [d.numa for d in machine.devices]) == ((), [0, 1])


ELSEWHERE = replace(
    FILE,
    devices=(Device("0000:77:00.0", 0, "0000:77:00.0"),),
    ports=(Port("mlx5_9", pci="0000:78:00.0"),),
)


def test_another_machines_file_is_not_used_and_told() -> None:
    assert joined(ELSEWHERE, HOST) == (
        HOST,
        ("the file describes no device and no port of this machine: it is not used",),
    )
    interfaces = Topology("sysfs", ports=(Port("eth0", rdma=False),))
    assert joined(ELSEWHERE, interfaces)[0] == interfaces


def test_where_the_kernel_shows_nothing_the_file_is_all() -> None:
    assert joined(ELSEWHERE, Topology("sysfs", allowed_cpus=(0,))) == (replace(ELSEWHERE, allowed_cpus=(0,)), ())


def test_what_the_file_has_beyond_this_machine_is_left_out_and_told() -> None:
    """A container has a part of the machine that the file describes: its one GPU is number 0, the file's number 1."""
    part = replace(HOST, devices=(replace(HOST.devices[1], index=0),), ports=HOST.ports[1:])
    machine, said = joined(FILE, part)
    assert said == (f"the file describes what this machine has not, which is left out: {GPUS[0]}, mlx5_0:1",)
    assert ([d.pci for d in machine.devices], [p.nic for p in machine.ports]) == ([GPUS[1]], ["mlx5_1"])
    blind, said = joined(FILE, replace(part, devices=()))
    assert ([d.pci for d in blind.devices], [p.nic for p in blind.ports]) == (GPUS, ["mlx5_1"])
    assert said == ("the file describes what this machine has not, which is left out: mlx5_0:1",)


def test_a_text_without_addresses_is_about_devices_by_number_and_ports_by_name() -> None:
    text = Topology(
        "nvidia-smi",
        devices=(Device("GPU0", 0), Device("GPU1", 1)),
        ports=(Port("mlx5_0"), Port("mlx5_1")),
        levels=(ToldLevel("GPU0", "mlx5_1:1", Level.PIX), ToldLevel("GPU1", "mlx5_0:1", Level.PIX)),
    )
    machine, said = joined(text, HOST)
    assert (said, [d.pci for d in machine.devices]) == ((), GPUS)
    bound = bind(machine, 2, Wishes(nic_policy="local")).ranks
    assert [rank.ports[0].nic for rank in bound] == ["mlx5_1", "mlx5_0"]


def test_a_renamed_nic_is_known_by_its_place() -> None:
    renamed = replace(HOST, ports=tuple(replace(p, nic=f"rocep{n}") for n, p in enumerate(HOST.ports)))
    machine, _ = joined(FILE, renamed)
    assert [port.nic for port in machine.ports] == ["rocep0", "rocep1"]


def test_a_captured_tree_stands_alone() -> None:
    tree = replace(HOST, ports=())
    assert joined(tree, HOST) == (tree, ())
