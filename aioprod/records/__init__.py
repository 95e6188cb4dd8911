"""Record batches of format version 2 (KIP-98): building them from records, and reading them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use
from aioprod.records.bounds import record_size_bound
from aioprod.records.builder import EncodedRecord, RecordBatchBuilder
from aioprod.records.compression import Compression, compress, decompress, may_exceed
from aioprod.records.cursor import RecordCursor
from aioprod.records.headers import NO_HEADERS, decode_headers, encode_headers
from aioprod.records.layout import HEADER, PREFIX

if TYPE_CHECKING:
    from aioprod.records.parser import ControlType, ParsedBatch, ParsedRecord, parse_batches

__all__ = [
    "HEADER",
    "NO_HEADERS",
    "PREFIX",
    "Compression",
    "ControlType",
    "EncodedRecord",
    "ParsedBatch",
    "ParsedRecord",
    "RecordBatchBuilder",
    "RecordCursor",
    "compress",
    "decode_headers",
    "decompress",
    "encode_headers",
    "may_exceed",
    "parse_batches",
    "record_size_bound",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(__name__, dict.fromkeys(__all__, "parser"))
