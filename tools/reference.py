"""Write docs/reference.md and docs/elaunch.1 from the parsers; with ``--check`` only say whether they are current."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from elaunch.cli.manpage import manpage  # noqa: E402
from elaunch.cli.reference import reference  # noqa: E402


def main(check: bool) -> int:
    """1 where something is not current."""
    stale = []
    for name, text in {"reference.md": reference(), "elaunch.1": manpage()}.items():
        path = ROOT / "docs" / name
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(f"docs/{name} is not what the parsers say: python tools/reference.py")
    print("\n".join(stale), end="\n" if stale else "", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
