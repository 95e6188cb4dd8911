"""Print the reference page of all settings: `python -m aioprod.config > docs/configuration.md`."""

from __future__ import annotations

import sys

from aioprod.config._page import reference_page

sys.stdout.write(reference_page())
