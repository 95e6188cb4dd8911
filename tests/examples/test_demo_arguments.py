"""What is not a number for an example is said by argparse, before anything is started."""

from __future__ import annotations

import importlib
import io

import pytest
from rich.console import Console

from examples.demo.arguments import at_least
from examples.demo.screen import Screen


def test_a_number_from_the_lowest_on_is_taken() -> None:
    assert [at_least(0)("0"), at_least(1)("1"), at_least(1)("20000")] == [0, 1, 20_000]


@pytest.mark.parametrize(
    ("module", "option", "wrong", "lowest"),
    [
        ("orders", "--orders", "-5", 1),
        ("orders", "--orders", "0", 1),
        ("orders", "--kills", "-1", 0),
        ("word_count", "--lines", "-3", 1),
        ("word_count", "--kills", "-1", 0),
        ("copy_table", "--rows", "-1", 1),
        ("copy_table", "--rows", "many", 1),
        ("copy_table", "--rows", "1.5", 1),
    ],
)
def test_what_is_no_number_ends_the_program(
    module: str, option: str, wrong: str, lowest: int, capsys: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module(f"examples.{module}.__main__").main
    with pytest.raises(SystemExit) as ended:
        main([option, wrong], Screen(Console(file=io.StringIO())))
    assert ended.value.code == 2
    *_, said = capsys.readouterr().err.splitlines()
    assert said == (
        f"python -m examples.{module}: error: argument {option}: {wrong!r} is not a whole number from {lowest} on."
    )
