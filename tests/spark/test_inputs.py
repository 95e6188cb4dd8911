"""What PySpark's loggers say while a job asks it about a user's expressions."""

from __future__ import annotations

import logging
import threading

import pytest
from pyspark.logger import PySparkLogger

from aioprod.spark.inputs import _LOGGERS, quiet


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.mark.parametrize("name", _LOGGERS)
def test_loggers_stay_those_of_pyspark(name: str) -> None:
    """Else PySpark's own call of one, with the file and the line of an expression, would raise TypeError."""
    kept = Kept()
    before = logging.root.manager.loggerDict.pop(name, None)
    try:
        with quiet():
            logger = PySparkLogger.getLogger(name)
            logger.addHandler(kept)
            logger.error("within", file="f", line="1")
            other = threading.Thread(target=logger.error, args=("of another thread",))
            other.start()
            other.join()
        assert isinstance(logger, PySparkLogger)
        logger.error("after", file="f", line="1")
        assert kept.texts == ["of another thread", "after"]
        assert not logger.filters
    finally:
        logging.root.manager.loggerDict.pop(name, None)
        if before is not None:
            logging.root.manager.loggerDict[name] = before


def test_loggers_are_themselves_again_after_a_failure() -> None:
    with pytest.raises(ValueError, match="no"), quiet():
        raise ValueError("no")
    assert not any(PySparkLogger.getLogger(name).filters for name in _LOGGERS)
