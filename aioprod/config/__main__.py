"""Look at a properties file, or print the reference page of all settings.

`python -m aioprod.config --check client.properties` says how a file is understood, secrets hidden, or what is wrong
with it (exit code 1). `python -m aioprod.config` prints the page; with `--of module:Class` it is that of another
configuration class.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from aioprod.config import ClientConfig, ProducerConfig, Settings
from aioprod.config._check import check_file
from aioprod.config._page import reference_page, settings_page
from aioprod.errors import ConfigError


def main() -> int:
    """Print what the arguments select; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m aioprod.config", description="The settings of aioprod's clients.")
    parser.add_argument("--check", metavar="FILE", help="read this properties file as a producer does, and show it")
    parser.add_argument("--of", metavar="MODULE:CLASS", help="show the settings of this class, not the producer's")
    options = parser.parse_args()
    try:
        cls: type[Settings] = ProducerConfig if options.of is None else class_of_settings(options.of)
        if options.check is not None:
            if not issubclass(cls, ClientConfig):
                raise ConfigError(f"{options.of!r} are not the settings of a Kafka client, whose files are checked.")
            sys.stdout.write(check_file(options.check, cls))
        elif options.of is not None:
            sys.stdout.write(settings_page(cls))
        else:
            sys.stdout.write(reference_page())
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def class_of_settings(name: str) -> type[Settings]:
    """The configuration class of that name, `aioprod.group:MemberConfig`; raises ConfigError."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"There is no {name!r}: {error}.") from error
    if not (isinstance(found, type) and issubclass(found, Settings)):
        raise ConfigError(f"{name!r} is not a class of settings.", hint="Give one such as aioprod.group:MemberConfig.")
    return found


if __name__ == "__main__":
    sys.exit(main())
