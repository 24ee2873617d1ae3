"""Pages of the site that lie outside docs/: runbooks, READMEs of deploy/, CONTRIBUTING.

In the tree links lead to the files themselves, as GitHub shows them; in the site to their pages.
https://www.mkdocs.org/user-guide/configuration/#hooks
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "CONTRIBUTING.md": "contributing/index.md",
    "deploy/chart/README.md": "sre/chart.md",
    "deploy/standalone/README.md": "sre/standalone.md",
    "deploy/standalone/grafana/README.md": "sre/grafana.md",
} | {
    page.relative_to(ROOT).as_posix(): f"runbooks/{page.name}"
    for page in sorted((ROOT / "deploy" / "runbooks").glob("*.md"))
}
"""File of the tree -> its page in the site."""
SOURCE = {page: file for file, page in OUTSIDE.items()}
LINK = re.compile(r"\]\(([^)#:\s]+\.md)(#[\w-]+)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages."""
    from mkdocs.structure.files import File

    for file, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / file)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links between files into links between pages."""
    here = page.file.src_uri
    file = SOURCE.get(here, f"docs/{here}")
    return LINK.sub(lambda match: f"]({_link(match[1], file, here)}{match[2] or ''})", markdown)


def _link(target: str, file: str, here: str) -> str:
    """A link out of `file`, which is the page `here`."""
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
    page = OUTSIDE.get(meant, meant.removeprefix("docs/"))
    return posixpath.relpath(page, posixpath.dirname(here))
