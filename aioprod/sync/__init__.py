"""A producer for threads: Flask, Django, Celery, scripts. It is a blocking form of `aioprod.Producer`."""

from __future__ import annotations

from aioprod.sync.producer import Producer

__all__ = ["Producer"]
