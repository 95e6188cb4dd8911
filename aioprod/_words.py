"""Numbers of things and durations in words, as errors, logs and reprs have them."""

from __future__ import annotations

__all__ = ["counted", "seconds_of"]


def counted(count: int, thing: str, grouping: str = "") -> str:
    """A number of things: `1 record`, `3 batches`. With "," as `grouping` it is `1,000 records`."""
    return f"{count:{grouping}} {thing}{'' if count == 1 else 's' if not thing.endswith('ch') else 'es'}"


def seconds_of(seconds: float) -> str:
    """A duration: `20 ms` below a second, `1.5 s` from there on."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1.0 else f"{seconds:.1f} s"
