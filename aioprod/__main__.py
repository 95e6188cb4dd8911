"""`python -m aioprod`, the same as the program `aioprod`."""

from __future__ import annotations

import sys

from aioprod.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
