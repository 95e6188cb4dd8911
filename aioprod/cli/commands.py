"""The commands of the program, each a module of its own."""

from __future__ import annotations

from typing import Final

from aioprod.console.frame import Command

__all__ = ["COMMANDS"]

COMMANDS: Final = {
    "produce": Command("aioprod.cli.produce", "send lines, JSON or CSV from files or a pipe"),
    "read": Command("aioprod.cli.read", "print the records of a topic"),
    "topics": Command("aioprod.cli.topics", "list, describe, create, delete and grow topics"),
    "groups": Command("aioprod.cli.groups", "list groups, their members and lag; reset and delete their offsets"),
    "configs": Command("aioprod.cli.configs", "describe and change the settings of topics and brokers"),
    "offsets": Command("aioprod.cli.offsets", "show where partitions begin, end, or were at a time"),
    "doctor": Command("aioprod.cli.doctor", "find out why a client can't work with a cluster"),
    "perf": Command("aioprod.cli.perf", "measure how many records a second a topic takes, and how long each takes"),
    "spool": Command("aioprod.cli.spool", "look at folders of records that wait for Kafka, and bring them there"),
    "outbox": Command("aioprod.cli.outbox", "create an outbox in a database, and bring its records to Kafka"),
    "fake": Command("aioprod.cli.fake", "serve fake brokers on this machine, without Docker and Java"),
    "assign": Command("aioprod.cli.assign", "show which member of a group reads which partitions, and what would move"),
    "partition": Command("aioprod.cli.partition", "show which partition a key goes to"),
    "completion": Command("aioprod.cli.completion", "write the script by which a shell completes commands"),
}
"""In the order of the help: with a broker, and then without one."""
