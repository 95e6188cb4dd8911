"""Numbers of things and durations in words, as errors, logs and reprs have them."""

from __future__ import annotations

__all__ = ["bytes_of", "counted", "seconds_of"]


def counted(count: int, thing: str, grouping: str = "") -> str:
    """A number of things: `1 record`, `3 batches`. With "," as `grouping` it is `1,000 records`."""
    return f"{count:{grouping}} {thing}{'' if count == 1 else 's' if not thing.endswith('ch') else 'es'}"


def bytes_of(size: float) -> str:
    """An amount of bytes, with three digits: `900 B`, `16.4 kB`, `1.23 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def rate_of(requests: int, size: float, seconds: float) -> str:
    """What a round trip of so many seconds allows: `5 requests of 410 kB in 252 ms = 8.13 MB/s`."""
    taken = seconds_of(seconds) if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"
    return f"{counted(requests, 'request')} of {bytes_of(size)} in {taken} = {bytes_of(requests * size / seconds)}/s"


def seconds_of(seconds: float) -> str:
    """A duration: `20 ms` below a second, `1.5 s` from there on."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1.0 else f"{seconds:.1f} s"
