"""The pictures of docs/how-it-works.md, each with its words, which the page has beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tools.documentation.pictures.drawing import ACCENT, BAD, GOOD, INK, QUIET, THEIRS, Drawing

__all__ = ["FIGURES"]


def way() -> Drawing:
    drawing = Drawing(
        860,
        300,
        "The way of a record",
        "A call hands a record over. It is prepared: interceptors, serializers. It waits for memory and for the "
        "topic's metadata, at most max.block.ms. Then it is accepted, and encoded into the batch of its partition, "
        "where it waits for others, at most linger.ms. The sender takes one batch of each partition into a request, "
        "which a broker has to answer within request.timeout.ms. The answer completes futures and callbacks. From its "
        "acceptance to its outcome a record has delivery.timeout.ms, whatever it waits for.",
    )
    stages = [
        (20, "your call", "send, submit,\nsend_nowait"),
        (160, "preparation", "interceptors,\nserializers"),
        (300, "memory", "and the topic,\nits partitions"),
        (440, "batch", "of its partition,\nencoded once"),
        (580, "request", "a batch of each\npartition"),
        (720, "broker", "appends, and\nreplicates"),
    ]
    for number, (x, title, more) in enumerate(stages):
        drawing.box(x, 60, 120, 80, f"{title}\n{more}", color=ACCENT if 0 < number < 5 else THEIRS)
        if number:
            drawing.arrow(x - 20, 100, x, 100)
    drawing.text(430, 32, "The way of a record", size=16, bold=True)
    drawing.line(780, 140, 780, 175)
    drawing.line(780, 175, 80, 175)
    drawing.arrow(80, 175, 80, 142)
    drawing.text(430, 168, "the answer: future, callback, interceptors, in order", size=12, color=QUIET)
    drawing.span(300, 420, 210, "max.block.ms", INK)
    drawing.span(440, 560, 210, "linger.ms", INK)
    drawing.span(580, 840, 210, "request.timeout.ms, each try", INK)
    drawing.span(440, 840, 265, "delivery.timeout.ms: from acceptance to outcome, retries included", BAD)
    return drawing


def outcomes() -> Drawing:
    drawing = Drawing(
        860,
        330,
        "What can become of a record",
        "If the record can't be accepted, the call raises, and nothing was sent. An accepted record is acknowledged, "
        "or its time runs out, or a broker rejects it. If it runs out of time and was never sent, it ends with "
        "NotSentError: sending it again is safe. If it was sent and no answer came, it ends with UnknownOutcomeError: "
        "it may be stored. A rejected one ends with RejectedError: it is not stored and will not be.",
    )
    drawing.text(430, 32, "What can become of a record", size=16, bold=True)
    drawing.box(20, 120, 120, 60, "a record")
    drawing.box(195, 120, 120, 60, "accepted")
    drawing.box(370, 120, 120, 60, "sent")
    drawing.arrow(140, 150, 195, 150)
    drawing.arrow(315, 150, 370, 150)
    for x, text, error in ((95, "can't be accepted", "the call raises"), (270, "its time is over", "NotSentError")):
        drawing.arrow(x, 180, x, 240, color=BAD)
        drawing.text(x + 8, 214, text, size=11, color=QUIET, at="start")
        drawing.box(x - 75, 242, 150, 60, f"{error}\nnot stored", color=GOOD)
    for top, text, x, y, outcome, stored, color in (
        (55, "acknowledged", 560, 96, "RecordMetadata", "stored once", GOOD),
        (145, "no answer in time", 640, 148, "UnknownOutcomeError", "may be stored", BAD),
        (235, "rejected", 550, 226, "RejectedError", "not stored", GOOD),
    ):
        drawing.arrow(490, 150, 655, top + 28, color=color)
        drawing.text(x, y, text, size=11, color=QUIET, at="end")
        drawing.box(657, top, 185, 56, f"{outcome}\n{stored}", color=color)
    return drawing


def numbers() -> Drawing:
    drawing = Drawing(
        860,
        380,
        "A lost answer, and a sequence number",
        "The producer sends batches of a partition with the sequence numbers 0, 10 and 20. The broker stores them. The "
        "answer to the second one is lost with its connection. The producer sends that batch again, with the same "
        "number 10. The broker knows the number, stores nothing, and answers with the offset that the batch has. "
        "Records are in order, and each is there once.",
    )
    drawing.text(430, 32, "A lost answer, and a sequence number", size=16, bold=True)
    for x, name in ((160, "producer"), (700, "leader of the partition")):
        drawing.box(x - 95, 50, 190, 36, name)
        drawing.line(x, 86, x, 365, dashed=True)
    steps: list[tuple[str, str, bool]] = [
        ("records 0 to 9, number 0", "right", True),
        ("records 10 to 19, number 10", "right", True),
        ("stored at offset 0", "left", True),
        ("stored at offset 10", "left", False),
        ("again: records 10 to 19, number 10", "right", True),
        ("known already: they are at offset 10", "left", True),
    ]
    for index, (text, way_, arrives) in enumerate(steps):
        y = 118 + 44 * index
        start, end = (160, 700) if way_ == "right" else (700, 160)
        if arrives:
            drawing.arrow(start, y, end, y, color=ACCENT if way_ == "right" else QUIET)
        else:
            drawing.line(start, y, 470, y, color=BAD, dashed=True)
            drawing.text(450, y + 6, "✕", size=18, color=BAD, bold=True)
        drawing.text(430 if arrives else 590, y - 7, text, size=12, color=INK if arrives else BAD)
    drawing.text(150, 254, "no answer:", size=11, color=BAD, at="end")
    drawing.text(150, 269, "connection lost", size=11, color=BAD, at="end")
    return drawing


def linger() -> Drawing:
    drawing = Drawing(
        860,
        270,
        "When a batch leaves",
        "A record that comes while nothing is in flight to its broker is sent at once, alone. While that request is on "
        "its way, the next records gather in a batch. When the answer comes, the batch is sent, without waiting for "
        "linger.ms to be over. So a lone record never waits, and a busy producer fills its batches by itself.",
    )
    drawing.text(430, 32, "When a batch leaves: adaptive linger", size=16, bold=True)
    drawing.line(40, 120, 830, 120)
    drawing.text(40, 108, "records", size=12, color=QUIET, at="start")
    for x in (110, 190, 220, 260, 290, 330, 420, 470, 500, 560):
        drawing.bar(x, 104, 8, 16, ACCENT)
    drawing.text(40, 168, "requests", size=12, color=QUIET, at="start")
    for x, width, text in ((118, 232, "1 record"), (352, 226, "5 records"), (580, 220, "4 records")):
        drawing.area(x, 148, width, 34, color=ACCENT, fill="#ffffff")
        drawing.text(x + width / 2, 170, text, size=12)
    drawing.arrow(114, 122, 120, 147, color=ACCENT)
    drawing.text(112, 74, "nothing is in flight:\nsent at once", size=11, color=QUIET, at="start")
    drawing.arrow(350, 205, 352, 184, color=THEIRS)
    drawing.text(350, 222, "the answer sends what has gathered", size=11, color=THEIRS)
    drawing.span(190, 520, 240, "linger.ms would still hold these back", QUIET)
    return drawing


def rooms() -> Drawing:
    drawing = Drawing(
        860,
        416,
        "The rooms of aioprod",
        "From above to below: the program, observability and testing; Spark; the producer, Admin, members of groups, "
        "and readers; net, with sockets, TLS and log-ins. Below it there is no I/O, no event loop and no clock: core "
        "with batches, retries, sequence numbers and the protocol of a connection; routing and cluster; records and "
        "messages; wire and Arrow. Imports go down only.",
    )
    drawing.text(430, 32, "The rooms: imports go down only", size=16, bold=True)
    rows: list[list[str]] = [
        [
            "cli\nthe program",
            "observability\nPrometheus, OpenTelemetry",
            "testing\nfake and real brokers",
            "spark\nsink, source, jobs",
        ],
        ["producer\nsending, transactions", "group\nmembers", "reader\nwithout a group", "admin\ntopics, groups"],
        ["net\nsockets, TLS, log-ins, metadata refresh"],
        ["core\nbatches, retries, numbers", "routing\nhashes, partitions", "cluster\nwho leads what"],
        ["records\nbatches of bytes", "messages\neach API", "wire\ntypes, frames", "arrow\ncolumns"],
    ]
    for number, row in enumerate(rows):
        y = 50 + 66 * number + (14 if number > 2 else 0)
        width = (820 - 12 * (len(row) - 1)) / len(row)
        for place, text in enumerate(row):
            drawing.box(20 + place * (width + 12), y, width, 54, text, color=ACCENT if number > 2 else THEIRS)
    drawing.line(20, 250, 840, 250, color=BAD, dashed=True)
    drawing.text(840, 407, "below the line: no I/O, no loop, no clock", size=12, color=BAD, at="end")
    return drawing


FIGURES: Final[dict[str, Callable[[], Drawing]]] = {
    "way.svg": way,
    "outcomes.svg": outcomes,
    "numbers.svg": numbers,
    "linger.svg": linger,
    "rooms.svg": rooms,
}
