"""Deliberate bugs, and whether the simulation detects each of them: `python -m tests.simulation.mutations`."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.simulation.mutation import Mutation

__all__ = ["MUTATIONS"]

RESOLVING = "tests.simulation.resolving"

_ALL = (
    Mutation(
        "the search for an unknown batch begins one offset too late",
        "aioprod.producer.stored_batches",
        "self._search(max(before.offset, earliest), is_certain",
        "self._search(max(before.offset + 2, earliest), is_certain",
    ),
    Mutation(
        "an unknown batch is known by its number alone",
        "aioprod.producer.batching.search",
        "        unknown = self._wanted.get((batch.producer_id, batch.producer_epoch, batch.base_sequence))\n",
        "        same = {key[2]: one for key, one in self._wanted.items()}\n"
        "        unknown = same.get(batch.base_sequence)\n",
    ),
    Mutation(
        "a header of another producer is taken for that of an unknown batch",
        "aioprod.producer.batching.search",
        "        unknown = self._wanted.get((batch.producer_id, batch.producer_epoch, batch.base_sequence))\n",
        "        same = {key[1:]: one for key, one in self._wanted.items()}\n"
        "        unknown = same.get((batch.producer_epoch, batch.base_sequence))\n",
        RESOLVING,
    ),
    Mutation(
        "a search that began by time says that a batch is in no log",
        "aioprod.producer.stored_batches",
        "is_certain=start == 0)\n            if start > earliest and",
        "is_certain=True)\n            if False and",
        RESOLVING,
    ),
    Mutation(
        "gaps in the log are overlooked",
        "aioprod.producer.batching.search",
        "            self.is_whole = False\n",
        "            pass\n",
        RESOLVING,
    ),
    Mutation(
        "an unknown batch is decided without a fence",
        "aioprod.producer.batching.unknown",
        "        batch.unknown = unknown\n",
        "        batch.unknown = unknown\n        by = self._before(partition, [unknown])\n"
        "        if by is not None:\n            self._decide(Decision([unknown], None, by))\n",
        RESOLVING,
    ),
    Mutation(
        "a batch of another producer id decides",
        "aioprod.producer.batching.unknown",
        "            elif unknown.producer_id != by.producer_id:\n",
        "            elif unknown.producer_id != by.producer_id:\n                found.append(unknown)\n"
        "            elif False:\n",
        RESOLVING,
    ),
    Mutation(
        "an aborted transaction is taken for a committed one",
        "aioprod.producer.batching.search",
        "batch.control_type() == ControlType.ABORT",
        "batch.control_type() is None",
    ),
    Mutation(
        "what moves again leaves its callers waiting",
        "aioprod.producer.batching.stuck_share",
        "            admitted.append(reservation)\n",
        "            kept.append(reservation)\n",
    ),
    Mutation(
        "memory is released twice",
        "aioprod.producer.batching.lifecycle",
        "    accumulator.budget.release(batch.record_bytes, batch.records)\n",
        "    accumulator.budget.release(2 * batch.record_bytes, 2 * batch.records)\n",
    ),
    Mutation(
        "a retry goes to the end of the queue",
        "aioprod.producer.batching.partition",
        "while at and self.queued[at - 1].serial > batch.serial:",
        "while False:",
    ),
    Mutation(
        "an outcome is delivered twice",
        "aioprod.producer.completions",
        "            returned = waiter(metadata, None)\n",
        "            returned = waiter(metadata, None)\n            returned = waiter(metadata, None)\n",
    ),
    Mutation(
        "a record that expires in flight was never sent",
        "aioprod.producer.batching.retry",
        "if batch.maybe_stored or batch.unanswered:",
        "if batch.maybe_stored:",
    ),
    Mutation(
        "a lost answer means that nothing was stored",
        "aioprod.producer.outcomes",
        "            batch.maybe_stored = True\n            batch.cause = error\n",
        "            batch.unanswered = False\n            batch.cause = error\n",
    ),
    Mutation(
        "a lost answer is a success",
        "aioprod.producer.outcomes",
        "            batch.maybe_stored = True\n            batch.cause = error\n",
        "            self._deliver(batch, -1, -1, now)\n            continue\n",
    ),
    Mutation(
        "a flush does not wait for the halves of a batch that was too large",
        "aioprod.producer.batching.splitting",
        "        for barrier in batch.barriers or ():",
        "        for barrier in ():",
    ),
    Mutation(
        "a cancelled record is sent all the same",
        "aioprod.producer.batching.batch",
        "        self.withdrawn.add(index)\n",
        "",
    ),
    Mutation(
        "the bytes of a batch that expired on the wire are used again",
        "aioprod.producer.batching.lifecycle",
        "    if not batch.on_wire and not batch.compressing:\n",
        "    if not batch.compressing:\n",
    ),
    Mutation(
        "the bytes of a batch that expired in a thread are used again",
        "aioprod.producer.batching.lifecycle",
        "    if not batch.on_wire and not batch.compressing:\n",
        "    if not batch.on_wire:\n",
    ),
    Mutation(
        "the parts of a batch that was too large begin their time anew",
        "aioprod.producer.batching.splitting",
        "    part.topic_id = batch.topic_id\n",
        "    part.topic_id = batch.topic_id\n    part.deadline += 10.0\n",
    ),
    Mutation(
        "sequence numbers are given when a batch is full",
        "aioprod.producer.batching.accumulator",
        "        batch.partition.close_batch()\n        if self.compress",
        "        batch.partition.close_batch()\n        if self.sequences is not None:\n"
        "            self.sequences.stamp(batch.partition, batch)\n        if self.compress",
    ),
    Mutation(
        "a batch grows after it was sent",
        "aioprod.producer.batching.lifecycle",
        "    partition.enqueue(batch)\n",
        "    if partition.open is None and not partition.queued:\n        partition.open = batch\n"
        "        batch.state = OPEN\n        batch.builder.limit_to(batch.full_position)\n"
        "    else:\n        partition.enqueue(batch)\n",
    ),
    Mutation(
        "a batch is closed twice",
        "aioprod.producer.batching.accumulator",
        "        batch.partition.close_batch()\n        if self.compress",
        "        batch.partition.close_batch()\n        batch.partition.queued.append(batch)\n        if self.compress",
    ),
    Mutation(
        "a batch that grows forgets its limit",
        "aioprod.producer.batching.growth",
        "PREFIX + min(units * self._batch_size, size_max)",
        "PREFIX + units * self._batch_size",
    ),
    Mutation(
        "a retry gets a new sequence number",
        "aioprod.producer.batching.drain",
        "if accumulator.sequences is not None and batch.base_sequence < 0:",
        "if accumulator.sequences is not None:",
    ),
    Mutation(
        "a duplicate is an error",
        "aioprod.producer.batching.retry",
        "if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):",
        "if code == ErrorCode.NONE:",
    ),
    Mutation(
        "out of sequence is always fatal",
        "aioprod.producer.batching.retry",
        "return Verdict.FAIL if is_gap and sequences.transactional else Verdict.RETRY",
        "return Verdict.FAIL",
    ),
    Mutation(
        "out of sequence begins no new epoch",
        "aioprod.producer.batching.sequences",
        "        self._miss(partition, batch.serial)\n        self._mark(partition)\n        return True\n",
        "        return True\n",
    ),
    Mutation(
        "a new epoch begins while batches are on the wire",
        "aioprod.producer.batching.sequences",
        "if partition.in_flight or self.transactional or",
        "if self.transactional or",
    ),
    Mutation(
        "a new epoch has the number of the old one",
        "aioprod.producer.batching.sequences",
        "self._bump(partition, partition.producer_id, partition.epoch + 1)",
        "self._bump(partition, partition.producer_id, partition.epoch)",
    ),
    Mutation(
        "a new epoch does not begin at 0",
        "aioprod.producer.batching.sequences",
        "        partition.next_sequence = 0\n",
        "",
    ),
    Mutation(
        "batches without outcome keep their stamps in a new epoch",
        "aioprod.producer.batching.sequences",
        "            batch.base_sequence = -1\n        partition.unacknowledged.clear()\n",
        "            pass\n",
    ),
    Mutation(
        "the first batch of an epoch is not alone",
        "aioprod.producer.batching.partition",
        "if self.retrying or not self.is_established or self.unknown_serial >= 0",
        "if self.retrying or self.unknown_serial >= 0",
    ),
    Mutation(
        "sequence numbers grow beyond 2**31",
        "aioprod.producer.batching.sequences",
        "_SEQUENCE_MASK: Final = 0x7FFFFFFF",
        "_SEQUENCE_MASK: Final = 0xFFFFFFFFFF",
    ),
    Mutation(
        "a record that fails leaves its transaction as it is",
        "aioprod.producer.transactions.manager",
        "        else:\n            self.fail(error)\n\n    def _fail_after(",
        "\n    def _fail_after(",
    ),
    Mutation(
        "a commit waits for no record",
        "aioprod.producer.transactions.manager",
        "                await self._effects.flush(self._max_block_s)\n            except BaseException as error:\n"
        "                if self.state is S.FLUSHING:",
        "                pass\n            except BaseException as error:\n"
        "                if self.state is S.FLUSHING:",
    ),
    Mutation(
        "the epoch in the response to EndTxn is ignored",
        "aioprod.producer.transactions.manager",
        "            self._identity = identity\n            self._effects.set_producer_id(identity)",
        "            self._identity = identity\n            if identity.epoch < 3:\n"
        "                self._effects.set_producer_id(identity)",
    ),
    Mutation(
        "the end of a backoff wakes nothing",
        "aioprod.producer.pipeline",
        "            end_backoffs(accumulator, now),\n",
        "            None,\n",
    ),
    Mutation(
        "a batch that expires on the wire keeps its place there",
        "aioprod.producer.batching.lifecycle",
        "    batch.on_wire = False\n    batch.partition.in_flight -= 1\n    if batch.state != COMPLETED:\n"
        "        return True\n",
        "    batch.on_wire = False\n    if batch.state != COMPLETED:\n"
        "        batch.partition.in_flight -= 1\n        return True\n",
    ),
    Mutation(
        "the first offset to commit skips an unfinished record",
        "aioprod.group.work.progress",
        "        low = next((at for at in self._unfinished if at != finished), self._end)\n",
        "        low = next((at for at in self._unfinished if at != finished), self._end - 1) + 1\n",
        kind="members",
    ),
    Mutation(
        "a record is finished before its handler ends",
        "aioprod.group.work.work",
        "            await self._plan.handler(await self._fetcher.deserialized(job.record))\n",
        "            job.progress.finish(job.record.offset)\n"
        "            await self._plan.handler(await self._fetcher.deserialized(job.record))\n",
        kind="members",
    ),
    Mutation(
        "two records of a key are in work at once",
        "aioprod.group.work.work",
        "            return tp, record.key\n",
        "            return tp, record.key, record.offset % 2\n",
        kind="members",
    ),
    Mutation(
        "marks name one record too many",
        "aioprod.group.work.progress",
        "            if at != finished:\n                gaps.append(at)\n",
        "            if at != finished and at % 7:\n                gaps.append(at)\n",
        kind="members",
    ),
    Mutation(
        "what the former owner has finished is handled again",
        "aioprod.group.work.work",
        "            marks = NOTHING if committed is None else decoded(committed.offset, committed.metadata)\n",
        "            marks = NOTHING\n",
        kind="members",
    ),
    Mutation(
        "a letter's offset is not in its transaction",
        "aioprod.group.work.letter_sender",
        "            await letters.producer.send_offsets_to_transaction(transaction.offsets, reading)\n",
        "",
        kind="members",
    ),
    Mutation(
        "a commit does not wait for the transaction of a letter",
        "aioprod.group.work.commits",
        "            if progress is not self._in_transaction\n",
        "",
        kind="members",
    ),
    Mutation(
        "a commit leaves the marks of letters out where they don't fit",
        "aioprod.group.work.progress",
        "        if marks.end < max(self._kept_end, 0 if finished is None else finished + 1):\n",
        "        if marks.end < 0:\n",
        kind="members",
    ),
    Mutation(
        "handlers of lost partitions go on",
        "aioprod.group.work.work",
        "                del self._running[job]\n                task.cancel()\n",
        "                del self._running[job]\n",
        kind="members",
    ),
    Mutation(
        "a file is renamed before it is synced",
        "aioprod.spool.files",
        "    files.sync(temporary)\n    files.rename(temporary, name)\n",
        "    files.rename(temporary, name)\n    files.sync(name)\n",
        kind="spool",
    ),
    Mutation(
        "names of files are not synced",
        "aioprod.spool.files",
        "    files.rename(temporary, name)\n    files.sync_names()\n",
        "    files.rename(temporary, name)\n",
        kind="spool",
    ),
    Mutation(
        "the checksum of a record is not looked at",
        "aioprod.spool.entries",
        "if not is_whole or crc32(memory.copied(source, at + _FRAME, length), self._seed) != _crc(source, at + 4):",
        "if not is_whole:",
        kind="spool",
    ),
    Mutation(
        "a group is not synced",
        "aioprod.spool.writing",
        "*parts)))\n            self._files.sync(self.tail.name)\n",
        "*parts)))\n",
        kind="spool",
    ),
    Mutation(
        "a sync that has failed is tried again, and believed",
        "aioprod.spool.writing",
        "*parts)))\n            self._files.sync(self.tail.name)\n",
        "*parts)))\n            try:\n                self._files.sync(self.tail.name)\n            except OSError:\n"
        "                self._files.sync(self.tail.name)\n",
        kind="spool",
    ),
    Mutation(
        "records are read before they are on the disk",
        "aioprod.spool.writing",
        "*parts)))\n            self._files.sync(self.tail.name)\n",
        "*parts)))\n            self.tail = Tail(self.tail.name, group.end, group.next, group.name)\n"
        "            self._files.sync(self.tail.name)\n",
        kind="spool",
    ),
    Mutation(
        "a torn group is not cut off",
        "aioprod.spool.segments",
        "        self._files.truncate(name, end)\n        self._files.sync(name)\n",
        "",
        kind="spool",
    ),
    Mutation(
        "the last group is not written again",
        "aioprod.spool.segments",
        "        self._files.write(name, group.at, data)\n        self._files.sync(name)\n        return True\n",
        "        return True\n",
        kind="spool",
    ),
    Mutation(
        "what a full disk has left of a group stays",
        "aioprod.spool.writing",
        "            self._files.truncate(self.tail.name, self.tail.at)\n            self._files.sync(self.tail.name)\n"
        "            raise _NoRoomError",
        "            raise _NoRoomError",
        kind="spool",
    ),
    Mutation(
        "a segment that has only a seal is followed by one of its name",
        "aioprod.spool.segments",
        "        return self.name != file_name(self.number)\n",
        "        return self.at > SEGMENT_BYTES\n",
        kind="spool",
    ),
    Mutation(
        "segments are removed before a later one is on the disk",
        "aioprod.spool.segments",
        "                if last is not None and file_name(self.heads[1].base) > last:\n                    break\n",
        "",
        kind="spooled",
    ),
    Mutation(
        "records are trimmed before they are committed",
        "aioprod.relay.loop",
        "        await delivery.deliver(run, sent)\n",
        "        await self._source.delivered(run.position)\n        await delivery.deliver(run, sent)\n",
        kind="spooled",
    ),
    Mutation(
        "the marker is outside of the transaction",
        "aioprod.relay.delivery",
        "            await self._producer.send_offsets_to_transaction({place: offset}, self._markers.group)\n",
        "            await self._producer.commit_transaction()\n            await self._producer.begin_transaction()\n"
        "            await self._producer.send_offsets_to_transaction({place: offset}, self._markers.group)\n",
        kind="spooled",
    ),
    Mutation(
        "the place of a record is reported before its commit",
        "aioprod.relay.loop",
        "            self._sent = (run, places, start)\n",
        "            self._outcomes.delivered(run.rows, places)\n",
        kind="spooled",
    ),
)
MUTATIONS = {mutation.name: mutation for mutation in _ALL}


def main() -> int:
    """Return the exit status: 1 if a mutation was not detected."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="in how many seeds each has to be detected")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="one for each core by default")
    parser.add_argument("names", nargs="*", help="which of them; all by default")
    options = parser.parse_args()
    names = options.names or list(MUTATIONS)
    width = max(map(len, names))
    missed = 0
    start = time.perf_counter()
    print(f"{'mutation':{width}}  seed  what was noticed")
    with ThreadPoolExecutor(options.processes) as pool:
        for name, (seed, problem) in zip(
            names, pool.map(lambda name: _first_seed(name, options.seeds), names), strict=True
        ):
            missed += seed is None
            print(f"{name:{width}}  {'none' if seed is None else seed:>4}  {problem}", flush=True)
    print(f"{len(names) - missed} of {len(names)} were noticed; {time.perf_counter() - start:.0f} s.")
    return bool(missed)


def _first_seed(name: str, seeds: int) -> tuple[int | None, str]:
    """The first seed that detects a mutation, and the first of its problems."""
    mutation = MUTATIONS[name]
    command = [sys.executable, "-m", mutation.noticed_by, f"--seeds={seeds}", f"--mutation={name}"]
    if mutation.noticed_by != RESOLVING:
        command += ["--processes=1", "--stop", f"--{mutation.kind}"]
    environment = os.environ | {"AIOPROD_NO_EXT": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    found = re.search(r"^Seed (\d+) .*:\n +(.*)$", done.stdout, re.MULTILINE)
    if found is not None:
        return int(found[1]), found[2]
    return None, f"nothing, exit status {done.returncode}: {done.stdout[-200:]!r}"


if __name__ == "__main__":
    sys.exit(main())
