"""The producer: facade, sender, and what becomes of each record."""

from __future__ import annotations

from aioprod.producer.producer import Producer

__all__ = ["Producer"]
