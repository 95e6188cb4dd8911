"""Writers that take little CPU time: pgbench with the statements of both kinds."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Final

from aioprod.outbox.statements import Insertion
from benchmarks.outbox.writers import OUTBOX
from examples.demo.local_postgres import server_programs

__all__ = ["commit"]

_ORDER: Final = """\
\\set id random(1, 9000000000000000)
\\set customer random(1, 1000)
BEGIN;
INSERT INTO orders VALUES (:id::text, 'customer ' || :customer, 'a book', 1) ON CONFLICT (id) DO NOTHING RETURNING id;
"""
_VALUE: Final = (
    "json_build_object('id', :id, 'customer', 'customer ' || :customer, 'item', 'a book', 'quantity', 1)::text"
)
_BEFORE: Final = f"""\
UPDATE outbox_state SET next = next + 1 RETURNING next - 1 AS number \\gset
INSERT INTO outbox (number, id, key, value) VALUES (:number, md5(:id::text), 'customer ' || :customer, {_VALUE});
COMMIT;
"""


def _script(kind: str, topic: str) -> str:
    if kind == "before":
        return _ORDER + _BEFORE
    key, value = "convert_to('customer ' || :customer, 'UTF8')", f"convert_to({_VALUE}, 'UTF8')"
    arguments = (f"'{topic}'", "NULL", key, value, "NULL", "NULL")
    put = Insertion(OUTBOX.names, notifies=True)("postgres", lambda index: arguments[index])
    return f"{_ORDER}{put};\nCOMMIT;\n"


async def commit(kind: str, dsn: str, topic: str, folder: Path, writers: int, seconds: float) -> tuple[int, float]:
    """Let so many writers commit orders for so long; how many they did, and how many a second."""
    script = folder / f"{kind}.sql"
    script.write_text(_script(kind, topic))
    process = await asyncio.create_subprocess_exec(
        *(str(server_programs() / "pgbench"), "-n", "-f", str(script), "-c", str(writers), "-j", "2"),
        *("-T", str(round(seconds)), dsn),
        stdout=subprocess.PIPE,
    )
    out, _ = await process.communicate()
    found = re.search(rb"actually processed: (\d+)[\s\S]*^tps = ([\d.]+)", out, re.MULTILINE)
    assert found is not None, out
    return int(found[1]), float(found[2])
