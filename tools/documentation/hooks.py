"""What the site has beside docs/: the files of the repository that its pages link to, and their code as it is shown.

MkDocs calls the functions named `on_…`. A link from a page to a file outside of docs/ leads, in the repository, to that
file. On the site it leads to a page with its text, below `repository/`, so that the site is whole without a network.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from tools.documentation.links import ROOT
from tools.documentation.markdown import links, prose
from tools.documentation.state_tables import as_tables

__all__ = ["on_files", "on_page_markdown"]

_FOLDER: Final = "repository"
_LANGUAGES: Final = {".py": "python", ".toml": "toml", ".yml": "yaml", ".pxd": "cython", ".java": "java"}
_PICTURES: Final = (".png", ".svg")
_FOUND_FIRST: Final = ("producer.md", "reference/producer.md", "configuration.md", "troubleshooting.md")
_RUNNABLE: Final = re.compile(r"^(\s*```python) runnable\b", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the repository that a page links to, and for those that these link to."""
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        source = waiting.pop()
        if not source.endswith(".md"):
            continue
        for link in links((ROOT / source).read_text(encoding="utf-8")):
            linked = _in_repository(source, link.path)
            if not link.path or linked in seen or not (ROOT / linked).exists():
                continue
            seen.add(linked)
            if not linked.startswith("docs/"):
                waiting.append(linked)
                files.append(_file_of(linked, config))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of a page whose links lead to pages of the site, and whose pictures of states are tables."""
    here = page.file.src_uri
    if here.startswith(_FOLDER):
        page.meta["search"] = {"exclude": True}
    elif here in _FOUND_FIRST:
        page.meta["search"] = {"boost": 3}
    source = here.removeprefix(f"{_FOLDER}/") if here.startswith(f"{_FOLDER}/") else f"docs/{here}"
    if (ROOT / source).suffix != ".md":
        return markdown
    lines = markdown.split("\n")
    for number, line in prose(markdown):
        lines[number - 1] = _LINK.sub(lambda found: f"]({_on_site(found[1], source, here, files)})", line)
    return as_tables(_RUNNABLE.sub(r"\1", "\n".join(lines)))


def _on_site(target: str, source: str, here: str, files: Files) -> str:
    path, _, anchor = target.partition("#")
    if not path or "://" in target:
        return target
    linked = _in_repository(source, path)
    place = linked.removeprefix("docs/") if linked.startswith("docs/") else _place_of(linked)
    if files.get_file_from_path(place) is None:
        return target  # MkDocs says that it leads nowhere.
    moved = posixpath.relpath(place, posixpath.dirname(here) or ".")
    return f"{moved}#{anchor}" if anchor and linked.endswith(".md") else moved


def _in_repository(source: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def _place_of(linked: str) -> str:
    return f"{_FOLDER}/{linked}" if linked.endswith((".md", *_PICTURES)) else f"{_FOLDER}/{linked}.md"


def _file_of(linked: str, config: MkDocsConfig) -> File:
    path = ROOT / linked
    made: dict[str, Any] = {"abs_src_path": str(path)}
    if path.is_dir() or path.suffix not in (".md", *_PICTURES):
        made = {"content": _listing(path, linked) if path.is_dir() else _code(path, linked)}
    return File.generated(config, _place_of(linked), inclusion=InclusionLevel.NOT_IN_NAV, **made)


def _front(title: str) -> str:
    return f"---\ntitle: {title}\nhide: [toc]\n---\n\n# {title}\n\n"


def _code(path: Path, title: str) -> str:
    text = path.read_text(encoding="utf-8")
    return f"{_front(title)}~~~~~~{_LANGUAGES.get(path.suffix, 'text')}\n{text}\n~~~~~~\n"


def _listing(path: Path, title: str) -> str:
    names = sorted(
        f"{each.name}/" if each.is_dir() else each.name for each in path.iterdir() if each.name[0] not in "._"
    )
    return _front(title) + "A folder of the repository with:\n\n" + "\n".join(f"- `{name}`" for name in names) + "\n"
