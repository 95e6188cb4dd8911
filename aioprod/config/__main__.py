"""Look at a properties file, or print the reference page of all settings.

`python -m aioprod.config --check client.properties` says how a file is understood, secrets hidden, or what is wrong
with it (exit code 1). `python -m aioprod.config > docs/configuration.md` writes the page.
"""

from __future__ import annotations

import argparse
import sys

from aioprod.config import ProducerConfig
from aioprod.config._check import check_file
from aioprod.config._page import reference_page
from aioprod.errors import ConfigError


def main() -> int:
    """Print what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m aioprod.config", description="The settings of aioprod's clients.")
    parser.add_argument("--check", metavar="FILE", help="read this properties file as a producer does, and show it")
    options = parser.parse_args()
    if options.check is None:
        sys.stdout.write(reference_page())
        return 0
    try:
        sys.stdout.write(check_file(options.check, ProducerConfig))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
