"""The options of what ranks are bound to: devices, NICs and CPUs."""

from __future__ import annotations

from elaunch.cli.flag import Flag
from elaunch.topology.binding import CPU_BINDINGS

PROBE_MODES = ("auto", "off")

BINDING = (
    Flag(
        "nic_policy",
        "ports of each rank: auto, local, all, or a map 0=mlx5_0,mlx5_1;1=mlx5_2",
        default="auto",
        metavar="auto|local|all|MAP",
        ours=True,
    ),
    Flag("nic_map", "lines 'RANK-OR-DEVICE = NIC,...', before any policy", metavar="FILE", ours=True),
    Flag("exclude_nic", "NICs, ports or interfaces that no rank gets", "list", (), metavar="NAME,...", ours=True),
    Flag("rails", "how many rails there are (default: as the ports show)", "integer", metavar="N", ours=True),
    Flag("nics_per_rank", "ports per rank (default: as the policy says)", "integer", metavar="N", ours=True),
    Flag("nic_bandwidth", "what each rank should have; less is told", "number", metavar="GBITS", ours=True),
    Flag(
        "cpu_bind",
        "CPUs and memory of each rank: those near its device, or cores of its own there",
        "choice",
        "none",
        choices=CPU_BINDINGS,
        ours=True,
    ),
    Flag(
        "device_map",
        "devices by local rank: index, PCI address or UUID",
        "list",
        (),
        metavar="DEVICE,...",
        ours=True,
    ),
    Flag(
        "topology",
        "a description of this machine: NCCL's or hwloc's XML, nvidia-smi topo -m, a captured /sys",
        metavar="FILE",
        ours=True,
    ),
    Flag(
        "probe",
        "before the first start see whether the nodes' interfaces reach each other: where there are several, or never",
        "choice",
        "auto",
        choices=PROBE_MODES,
        ours=True,
    ),
    Flag("allow_asymmetry", "nodes may differ in their devices and NICs", "flag", False, ours=True),
)
