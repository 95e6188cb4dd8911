"""What the jobs begin with: a Spark session, the data that `--from` names, and the sentences of Spark's errors."""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aioprod.errors import AioprodError, ConfigError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_source", "local_path", "quiet", "read_input", "sentence", "session", "spark_errors"]

_INPUTS: Final = ("json", "parquet", "csv", "table")
"""The kinds of input: lines of JSON, Parquet, CSV with a first line of names (all columns are text), a table's name."""

_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_SET_UP: Final = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME")
_PATTERN: Final = re.compile(r"[*?{}\[\]\\]")
_CODE: Final = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+.*$")
_CLASS: Final = re.compile(r"^(?:[\w$]+\.)+[\w$]+(?:: )?")


@contextmanager
def session() -> Iterator[SparkSession]:
    """The running session, or one of the environment's own settings (spark-submit, SPARK_REMOTE), else `local[*]`.

    One that is started here is quiet, runs Python workers on this interpreter unless PYSPARK_PYTHON says otherwise,
    and is stopped at the end.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError("PySpark is not installed.", hint='Install it with pip install "aioprod[spark]".') from error
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("aioprod")
    if not _is_placed():
        builder = builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    try:
        started = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except Exception as error:
        raise UsageError(f"Spark can't be started: {sentence(error)}", hint="It needs Java 17 or later.") from error
    try:
        yield started
    finally:
        started.stop()


def _is_placed() -> bool:
    """Whether something else says where Spark runs: a remote server, or spark-submit and its arguments."""
    return any(name in os.environ for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"))


def local_path(place: str) -> Path | None:
    """The file or folder of this machine that Spark will take a text for; None where only Spark knows.

    That is so for other file systems, for patterns, and where something may have set up another file system.
    """
    if _is_placed() or _is_running() or any(name in os.environ for name in _SET_UP) or _PATTERN.search(place):
        return None
    if place.startswith("file:/"):
        return Path("/", place.removeprefix("file:").lstrip("/"))
    return None if ":" in place else Path(place)


def _is_running() -> bool:
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None


def check_source(source: str) -> tuple[str, str]:
    """The kind and the place of an input such as `parquet:orders/`; raises ConfigError where it sees a mistake.

    What is not a file of this machine is looked for by Spark.
    """
    kind, colon, place = source.partition(":")
    if kind not in _INPUTS or not colon or not place.strip():
        near = difflib.get_close_matches(kind, _INPUTS, n=1)
        _, dot, ending = source.removesuffix(".gz").rpartition(".")
        if near and near[0] != kind:
            hint = f"Did you mean {near[0]}:{place or 'PATH'}?"
        elif dot and not colon and ending in _INPUTS:
            hint = f"Did you mean {ending}:{source}?"
        else:
            hint = "Give json:PATH, parquet:PATH, csv:PATH or table:NAME."
        raise ConfigError(f"The input {source!r} is not understood.", hint=hint)
    path = None if kind == "table" else local_path(place)
    if path is not None and not path.exists():
        raise ConfigError(f"The input {source!r} can't be read: there is no file and no folder {str(path)!r}.")
    return kind, place


def read_input(spark: SparkSession, source: str) -> DataFrame:
    """The data frame that a text such as `parquet:s3://bucket/orders/` or `table:sales.orders` names.

    Nothing is guessed where a guess could change data: a line that is not JSON fails the job that meets it, columns of
    CSV are text. Raises ConfigError for another kind of input, and for one that is not there or can't be read.
    """
    kind, place = check_source(source)
    with spark_errors(f"The input {source!r} can't be read"), quiet():
        if kind == "table":
            df = spark.read.table(place)
        elif kind == "parquet":
            df = spark.read.parquet(place)
        elif kind == "csv":
            df = spark.read.csv(place, header=True, mode="FAILFAST")
        else:
            df = spark.read.json(place, mode="FAILFAST")
        columns = df.columns
    if not columns:
        raise ConfigError(f"The input {source!r} has no columns: it is empty.")
    return df


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Turn what Spark raises into a ConfigError: `what`, a colon, and what Spark says, in one sentence."""
    try:
        yield
    except AioprodError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise ConfigError(f"{what}: {sentence(error)}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark logs a page of JSON about what it can't resolve: the error's own sentence says as much.

    Only what this thread logs is left out, and the loggers are PySpark's own: one that was made by another hand would
    stay in their place, and raise TypeError where PySpark reports its errors.
    """
    from pyspark.logger import PySparkLogger

    thread = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)


def sentence(error: BaseException) -> str:
    """The first sentence of what Spark says, without its codes, its position, the plan and the stack."""
    java = getattr(error, "java_exception", None)
    lines = str(error if java is None else java.toString()).strip().splitlines() or [type(error).__name__]
    text = _CODE.sub("", _CLASS.sub("", lines[0])).strip() or type(error).__name__
    return text if text.endswith((".", "?")) else f"{text}."
