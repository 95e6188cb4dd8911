"""A folder for small texts on any file system that Spark writes to; each is whole at any time, the old or the new."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from aioprod.errors import ConfigError
from aioprod.spark.inputs import local_path, sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Folder", "HadoopFolder", "LocalFolder", "folder_at", "local_folder"]


class Folder(Protocol):
    """Texts by name. `path` is what Spark is given for what it writes there itself."""

    path: str

    def read(self, name: str) -> str | None:
        """None where there is no such text."""

    def write(self, name: str, text: str) -> None:
        """Replace it in one step; makes the folder."""


def folder_at(spark: SparkSession, path: str) -> Folder:
    """The folder with a path or URI, as Spark resolves it; raises ConfigError where there is no such file system."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ConfigError(
            "A manifest needs a classic Spark session: through Spark Connect its file system can't be reached."
        )
    try:
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        place = jvm.org.apache.hadoop.fs.Path(path)
        system = place.getFileSystem(configuration)
        uri = str(system.makeQualified(place).toUri().toString())
    except Exception as error:
        raise ConfigError(f"The folder {path!r} can't be used: {sentence(error)}") from error
    if urlsplit(uri).scheme == "file":
        return LocalFolder(unquote(urlsplit(uri).path))
    return HadoopFolder(jvm, configuration, uri)


def local_folder(path: str) -> LocalFolder | None:
    """The folder if it is one of this machine, as far as that can be seen without Spark."""
    place = local_path(path)
    return None if place is None else LocalFolder(str(place))


class LocalFolder:
    """On this machine, or mounted on all."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, name: str) -> str | None:
        try:
            return Path(self.path, name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name} in {self.path!r} can't be read: {_reason(error)}.") from error

    def write(self, name: str, text: str) -> None:
        target = Path(self.path, name)
        # Spark takes names with a dot or an underscore before them for no data.
        draft = target.with_name(f".{name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
        except OSError as error:
            raise ConfigError(f"{name} in {self.path!r} can't be written: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


class HadoopFolder:
    """On any file system of Hadoop's, through Spark's JVM."""

    def __init__(self, jvm: Any, configuration: Any, path: str) -> None:
        self._jvm = jvm
        self._configuration = configuration
        self.path = path

    def _place(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path, name)

    def read(self, name: str) -> str | None:
        place = self._place(name)
        try:
            system = place.getFileSystem(self._configuration)
            if not system.exists(place):
                return None
            stream = system.open(place)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Exception as error:
            raise _failed("read", name, self.path, error) from error

    def write(self, name: str, text: str) -> None:
        place, draft = self._place(name), self._place(f".{name}.{os.getpid()}")
        try:
            stream = draft.getFileSystem(self._configuration).create(draft, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            fs = self._jvm.org.apache.hadoop.fs
            rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
            how = self._jvm.java.lang.reflect.Array.newInstance(rename.OVERWRITE.getClass(), 1)
            how[0] = rename.OVERWRITE
            fs.FileContext.getFileContext(draft.toUri(), self._configuration).rename(draft, place, how)
        except Exception as error:
            raise _failed("written", name, self.path, error) from error


def _failed(what: str, name: str, path: str, error: Exception) -> ConfigError:
    return ConfigError(f"{name} in {path!r} can't be {what}: {sentence(error)}")
