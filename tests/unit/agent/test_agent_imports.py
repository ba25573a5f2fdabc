"""What must cost nothing to import."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "text",
    [
        "import elaunch.worker.autoload as a; a.autoload()",
        "import elaunch.agent.serving, elaunch.agent.spawner, elaunch.agent.streams, elaunch.agent.tail",
        "import elaunch.worker.bootstrap, elaunch.worker.store_host, elaunch.worker.numa, elaunch.worker.logs_specs",
    ],
)
def test_torch_is_not_imported(text: str) -> None:
    text += "; import sys; assert not {'torch', 'numpy', 'grpc'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
