"""The volumes of a pod, as folders of the machine that its containers see."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kubernetes.api import Api, ApiError
from tests.kubernetes.environment import Missing, Place, field, resource

Object = Mapping[str, Any]


class Volumes:
    """Of one pod, below ``folder``."""

    def __init__(self, api: Api, pod: Object, place: Place, folder: Path) -> None:
        self._api, self._pod, self._place, self._folder = api, pod, place, folder
        self._sources: dict[str, Path] = {}

    async def make(self) -> None:
        """Raises Missing."""
        for volume in self._pod["spec"].get("volumes") or ():
            self._sources[volume["name"]] = await self._make(volume)

    def refresh(self, pod: Object) -> None:
        """Labels and annotations of the pod may have changed: what tells of them does so."""
        self._pod = pod
        for volume in pod["spec"].get("volumes") or ():
            if volume["name"] in self._sources:
                for source in (volume, *(volume.get("projected") or {}).get("sources", ())):
                    if "downwardAPI" in source:
                        self._write(volume["name"], self._told(source["downwardAPI"]))

    def mounts(self, container: Object) -> list[tuple[str, str, bool]]:
        """What is mounted where, and whether it is read only there."""
        found = []
        for mount in container.get("volumeMounts") or ():
            source = self._sources[mount["name"]] / mount.get("subPath", "")
            if mount.get("subPath") and not source.exists():
                source.mkdir(parents=True)
            found.append((str(source), mount["mountPath"], bool(mount.get("readOnly"))))
        return found

    async def _make(self, volume: Object) -> Path:
        if "hostPath" in volume:
            return _host_path(volume["hostPath"])
        name = str(volume["name"])
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            _give_to_group(folder, self._pod)
            return folder
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        for source in sources:
            self._write(name, await self._files(source))
        return folder

    async def _files(self, source: Object) -> dict[str, bytes]:
        if told := source.get("downwardAPI"):
            return self._told(told)
        if token := source.get("serviceAccountToken"):
            return {token["path"]: (await self._token(token)).encode()}
        kind = next((kind for kind in ("configMap", "secret") if kind in source), None)
        if kind is None:
            raise Missing(f"volumes of this kind are not known here: {', '.join(source.keys() - {'name'})}")
        data = await self._data(kind, source[kind])
        if items := source[kind].get("items"):
            return {item["path"]: data[item["key"]] for item in items}
        return data

    async def _data(self, kind: str, ref: Object) -> dict[str, bytes]:
        name = ref.get("secretName") or ref["name"]
        data = await read_data(self._api, self._pod["metadata"]["namespace"], kind, name)
        if data is None and not ref.get("optional"):
            raise Missing(f'{kind} "{name}" not found')
        return data or {}

    async def _token(self, wanted: Object) -> str:
        spec = {"audiences": [wanted["audience"]] if wanted.get("audience") else None}
        spec["expirationSeconds"] = wanted.get("expirationSeconds")
        meta, account = self._pod["metadata"], self._pod["spec"].get("serviceAccountName", "default")
        path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
        told = await self._api.call("POST", path, {"spec": {k: v for k, v in spec.items() if v is not None}})
        return str(told["status"]["token"])

    def _told(self, source: Object) -> dict[str, bytes]:
        files = {}
        for item in source.get("items") or ():
            if "fieldRef" in item:
                text = field(item["fieldRef"]["fieldPath"], self._pod, self._place)
            else:
                named = item["resourceFieldRef"]["containerName"]
                container = next(c for c in self._pod["spec"]["containers"] if c["name"] == named)
                text = resource(item["resourceFieldRef"], container)
            files[item["path"]] = text.encode()
        return files

    def _write(self, name: str, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            target = self._folder / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            replace(target, content)


async def read_data(api: Api, namespace: str, kind: str, name: str) -> dict[str, bytes] | None:
    """The content of a config map or a secret; None where it is not there."""
    try:
        told = await api.call("GET", f"/api/v1/namespaces/{namespace}/{kind.lower()}s/{name}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    if kind.lower() == "secret":
        return {key: base64.b64decode(value) for key, value in (told.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (told.get("data") or {}).items()}
    return {**plain, **{key: base64.b64decode(value) for key, value in (told.get("binaryData") or {}).items()}}


def replace(target: Path, content: bytes) -> None:
    """At once: who reads it finds the old content or the new."""
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    os.replace(fresh, target)


def _host_path(host: Object) -> Path:
    path = Path(str(host["path"]))
    if host.get("type") == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        raise Missing(f"hostPath {path} does not exist")
    return path


def _give_to_group(folder: Path, pod: Object) -> None:
    folder.chmod(0o777)
    if group := (pod["spec"].get("securityContext") or {}).get("fsGroup"):
        os.chown(folder, -1, group)
        folder.chmod(0o2777)
