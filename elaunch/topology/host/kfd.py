"""AMD's GPUs as their compute driver tells of them in sysfs, in the order in which ROCm counts them."""

from __future__ import annotations

from elaunch.topology import pci
from elaunch.topology.host.told import Told
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import Peer

_KFD = "sys/class/kfd/kfd"
_XGMI = "11"
Properties = dict[str, str]


def read_kfd(tree: Tree) -> list[Told]:
    """Nodes that this process may not read belong to another container: their properties are empty."""
    nodes = f"{tree.target(_KFD) or _KFD}/topology/nodes"
    numbers = sorted(int(name) for name in tree.names(nodes) if name.isdecimal() and len(name) < 6)
    read = {number: _properties(tree, f"{nodes}/{number}/properties") for number in numbers}
    gpus = {number: told for number, told in read.items() if told.get("simd_count", "0") != "0"}
    ids = {number: _id(told) for number, told in gpus.items()}
    renders = tree.names("dev/dri")
    return [
        Told(
            address=_card(ids[number]) if _number(told, "num_xcc") and _is_part(tree, ids[number]) else ids[number],
            id=ids[number],
            uuid=f"GPU-{unique:016x}" if (unique := _number(told, "unique_id")) else "",
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
    location = _number(told, "location_id") & 0xFFFF
    domain = _number(told, "domain") & 0xFFFFFFFF
    return pci.address(f"{domain:x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}")


def _is_part(tree: Tree, address: str) -> bool:
    """Parts of a split GPU (CPX) count themselves in the place of the function, and the bus has only function 0."""
    return not tree.has(f"sys/bus/pci/devices/{address}") and tree.has(f"sys/bus/pci/devices/{_card(address)}")


def _card(address: str) -> str:
    return f"{pci.card(address)}.0"


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
