from pathlib import Path

import pytest


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A program that exists."""
    path = tmp_path / "train.py"
    path.write_text("print('trained')\n")
    return str(path)
