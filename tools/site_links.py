"""For mkdocs: links to files beside docs/ are shown by their path, as the site has docs/ only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)[^)\s]*\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Links that lead out of the site's folder, as text. Raises ValueError where there is no such file."""
    docs = Path(config["docs_dir"]).resolve()
    here = (docs / page.file.src_uri).parent

    def shown(found: re.Match[str]) -> str:
        target = (here / found[2]).resolve()
        if target.is_relative_to(docs):
            return found[0]
        if not target.exists():
            raise ValueError(f"{page.file.src_uri}: {found[2]} does not exist")
        path = target.relative_to(docs.parent).as_posix()
        return f"`{path}`" if found[1].strip("`") in (path, found[2]) else f"{found[1]} (`{path}`)"

    return _OUTSIDE.sub(shown, markdown)
