"""What the arguments of a load, and the brokers, show before Spark takes its seconds to start."""

from __future__ import annotations

from typing import Any

from aioprod.spark.folder import local_folder
from aioprod.spark.loading.amounts import bytes_s
from aioprod.spark.loading.cluster import check_unused, topic_state
from aioprod.spark.loading.job import checked_partitioner, once_settings, run_id_of
from aioprod.spark.manifest import manifest_of

__all__ = ["check"]


def check(
    *,
    bootstrap_servers: str,
    topic: str,
    key: str | None,
    partitioner: str,
    rate: str | None,
    run_id: str | None,
    manifest: str | None,
    resume: bool,
    dry_run: bool,
    when_marker_is_missing: str,
    options: dict[str, Any],
) -> None:
    """Raise what `load` with the same arguments would raise later, as far as that can be seen without Spark.

    A manifest is looked at where it is in a folder of this machine.
    """
    bytes_s(rate)
    name = run_id_of(run_id, topic, resume)
    settings = once_settings(name, bootstrap_servers, topic, when_marker_is_missing, options)
    checked_partitioner(partitioner, key)
    folder = None if manifest is None or dry_run else local_folder(manifest)
    if folder is not None:
        manifest_of(folder, run_id, resume=resume)
    topic_state(settings.kafka.session(), topic)
    if run_id is not None and not resume and not dry_run:
        check_unused(settings, name)
