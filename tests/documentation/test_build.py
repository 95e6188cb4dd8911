"""The built site: whole without a network, with all pages in its search."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.snippets import DOCS, ROOT

ELSEWHERE = re.compile(r"""<(?:script|img|iframe)[^>]* src=["']?(?:https?:)?//|<link[^>]* href=["']?(?:https?:)?//""")


@pytest.mark.long
def test_the_site_is_built_without_warnings_and_needs_no_network(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--config-file",
            "tools/mkdocs.yml",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Not with --quiet, by which MkDocs forgets its warnings, and that they are errors.
    assert (ended.returncode, "WARNING" in ended.stderr) == (0, False), ended.stderr
    site = tmp_path / "site"
    for page in site.rglob("*.html"):
        assert not ELSEWHERE.search(page.read_text()), page
    assert not list(site.rglob("*mermaid*"))
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    sources = [source.relative_to(DOCS).with_suffix(".html") for source in DOCS.rglob("*.md")]
    assert {str(source) for source in sources} - found == set()
    assert not [location for location in found if location.startswith("repository/")]
