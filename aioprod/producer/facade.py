"""The class that users know as `Producer`."""

from __future__ import annotations

from aioprod.producer import producer

__all__ = ["Producer"]


class Producer(producer.Producer):
    # A class of Python's own, so that a test may patch its methods: those of a compiled class can't be replaced. Its
    # calls cost the same, as they are the other one's.
    __doc__ = producer.Producer.__doc__
    __slots__ = ()
