"""An audit as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioprod.spark.auditing.report import KINDS, AuditReport
from aioprod.spark.report import Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["page_of"]

_NAMES: Final = {
    "lost": "Lost",
    "duplicated": "Duplicated",
    "extra": "Extra",
    "misplaced": "In the wrong partition",
    "out_of_order": "Out of order",
}


def page_of(report: AuditReport) -> Page:
    """Verdict, counts, a picture of the partitions, and the rows that are wrong."""
    page = Page(f"Audit of run {report.run_id} in topic {report.topic}")
    page.note(report.verdict, "good" if report.is_clean else "bad")
    how = "each row with its receipt" if report.was_full else "digests of the rows of each partition"
    page.text(
        f"{report.promised:,} rows were promised, {report.found:,} were found. Compared were {how}, read with "
        f"{report.isolation}, in {report.seconds:.1f} s."
    )
    page.table(("What", "Rows"), [(_NAMES[kind], report.counts[kind]) for kind in KINDS])
    page.section("Partitions")
    if report.partitions:
        page.figure("Rows of each partition, promised and found.", lambda axes: _bars(axes, report))
    page.table(
        ("Partition", "Rows promised", "Rows found", "Bytes promised", "Bytes found", "Same rows, same order"),
        [
            (
                str(one.partition),
                one.promised,
                one.found,
                one.promised_bytes,
                one.found_bytes,
                "yes" if one.is_same else "no",
            )
            for one in report.partitions
        ],
    )
    if report.findings:
        page.section("Rows that are not as promised")
        total = sum(report.counts.values())
        if total > len(report.findings):
            page.text(f"The first {len(report.findings)} of {total:,}.")
        page.table(
            ("What", "Key", "Partition", "Offset", "Promised in partition", "Promised after offset"),
            [
                (
                    _NAMES[one.kind],
                    one.key,
                    one.partition,
                    one.offset,
                    one.promised_partition,
                    one.after_offset,
                )
                for one in report.findings
            ],
        )
    return page


def _bars(axes: Axes, report: AuditReport) -> None:
    from matplotlib.ticker import MaxNLocator

    width = 0.4
    for side, name in ((-width / 2, "promised"), (width / 2, "found")):
        places = [one.partition + side for one in report.partitions]
        axes.bar(places, [getattr(one, name) for one in report.partitions], width, label=name)
    axes.set_xlabel("partition")
    axes.set_ylabel("rows")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
