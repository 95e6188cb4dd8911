"""aioprod from a zip file, as `spark-submit --py-files` sends it: where no worker could import it otherwise."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aioprod.testing import KafkaCluster
from integration.spark.environments import ROOT, python_with_connect
from integration.spark.pipelines import check_pipeline

ZIP = ["-m", "zipfile", "-c"]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_zip_file(kafka: KafkaCluster, tmp_path: Path) -> None:
    archive = tmp_path / "aioprod.zip"
    # The command of docs/spark.md.
    subprocess.run([sys.executable, *ZIP, archive, "aioprod", "pyspark_aioprod.py"], cwd=ROOT, check=True)
    assert "aioprod/spark/datasource.py" in zipfile.ZipFile(archive).namelist()
    python = python_with_connect()
    without = subprocess.run([python, "-I", "-c", "import aioprod"], cwd=tmp_path, capture_output=True, check=False)
    assert b"No module named 'aioprod'" in without.stderr
    home = next(python.parent.parent.glob("lib/python*/site-packages/pyspark"))
    submit: list[str | Path] = [
        "env",
        "-u",
        "AIOPROD_NO_EXT",
        f"PYSPARK_PYTHON={python}",
        f"SPARK_HOME={home}",
        home / "bin" / "spark-submit",
    ]
    submit += ["--master", "local[2]", "--py-files", archive]
    told = check_pipeline(submit, "submitted", kafka, tmp_path, path=())
    assert told["compiled"] is False
    assert "aioprod.zip/aioprod" in told["aioprod"]
