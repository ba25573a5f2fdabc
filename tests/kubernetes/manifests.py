"""Objects that tests ask the API for."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def container(*words: str, name: str = "main", **more: Any) -> Object:
    return {"name": name, "image": "registry.example/any:1", "command": list(words), **more}


def python(source: str, *arguments: str, **more: Any) -> Object:
    """A container that runs Python's ``source``."""
    return container("python", "-uc", source, *arguments, **more)


def shell(script: str, **more: Any) -> Object:
    return container("sh", "-c", script, **more)


def pod(name: str, *containers: Object, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """With a second's grace, and not started again, unless ``spec`` says otherwise."""
    usual = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": list(containers)}
    meta = {"name": name, "labels": labels or {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**usual, **spec}}


def job(name: str, template: Object, **spec: Any) -> Object:
    """A Job of what ``pod`` made."""
    held = {"backoffLimit": 0, "template": {"metadata": {"labels": template["metadata"]["labels"]}}, **spec}
    held["template"] = {**held["template"], "spec": template["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": held}


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def headless_service(name: str, selector: dict[str, str], port: int = 80, **spec: Any) -> Object:
    told = {"clusterIP": "None", "selector": selector, "ports": [{"name": "main", "port": port}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": told}
