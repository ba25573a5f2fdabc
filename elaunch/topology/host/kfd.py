"""AMD's GPUs as their compute driver tells of them in sysfs, in the order in which ROCm counts them."""

from __future__ import annotations

from collections import Counter

from elaunch.topology import pci
from elaunch.topology.host.told import Told
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import Peer

_KFD = "sys/class/kfd/kfd"
_XGMI = "11"
Properties = dict[str, str]


def read_kfd(tree: Tree) -> list[Told] | None:
    """None where there is no such driver. Nodes that this process may not read belong to another container."""
    nodes = f"{tree.target(_KFD) or _KFD}/topology/nodes"
    if not tree.has(nodes):
        return None
    numbers = sorted(int(name) for name in tree.names(nodes) if name.isdecimal() and len(name) < 6)
    read = {number: _properties(tree, f"{nodes}/{number}/properties") for number in numbers}
    gpus = {number: told for number, told in read.items() if told.get("simd_count", "0") != "0"}
    ids = {number: _id(told) for number, told in gpus.items()}
    uuids = Counter(told.get("unique_id") for told in gpus.values())
    renders = tree.names("dev/dri")
    return [
        Told(
            address=_address(tree, ids[number]),
            id=ids[number],
            uuid=_uuid(told) if uuids[told.get("unique_id")] == 1 else "",  # parts of a split GPU share it
            model=_model(told),
            peers=_peers(tree, f"{nodes}/{number}", ids),
            hidden=_hidden(told, renders),
        )
        for number, told in gpus.items()
    ]


def _properties(tree: Tree, path: str) -> Properties:
    lines = (line.split(maxsplit=1) for line in (tree.text(path) or "").splitlines())
    return {line[0]: line[1].strip() for line in lines if len(line) == 2}


def _number(told: Properties, name: str) -> int:
    text = told.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= 20 else 0


def _id(told: Properties) -> str:
    location = _number(told, "location_id")
    location = location & 0xFFFF | location >> 28 & 7  # where a kernel of before 6.6 counts the parts of a split GPU
    domain = _number(told, "domain") & 0xFFFFFFFF
    return pci.address(f"{domain:x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}")


def _address(tree: Tree, id_: str) -> str:
    """Parts of a split GPU (CPX) count themselves in the place of the function, and the bus has only function 0."""
    first = f"{pci.card(id_)}.0"
    split = not tree.has(f"sys/bus/pci/devices/{id_}") and tree.has(f"sys/bus/pci/devices/{first}")
    return first if split else id_


def _uuid(told: Properties) -> str:
    number = _number(told, "unique_id")
    return f"GPU-{number:016x}" if number else ""


def _model(told: Properties) -> str:
    """``gfx942`` of 90402: what ROCm compiles for."""
    version = _number(told, "gfx_target_version")
    return f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}" if version else ""


def _peers(tree: Tree, node: str, ids: dict[int, str]) -> tuple[Peer, ...]:
    links = [_properties(tree, f"{node}/io_links/{name}/properties") for name in tree.names(f"{node}/io_links")]
    to = [ids.get(_number(link, "node_to")) for link in links if link.get("type") == _XGMI]
    return tuple(Peer(device, "xgmi") for device in sorted(filter(None, to), key=pci.order))


def _hidden(told: Properties, renders: list[str]) -> str:
    name = f"renderD{told.get('drm_render_minor', '')}"
    return f"there is no /dev/dri/{name}" if renders and name not in renders else ""
