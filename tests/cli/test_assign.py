"""`aioprod assign`: who reads what, and what a rebalance would move."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import aioprod
from aioprod.cli.__main__ import main
from aioprod.cli.arguments import members_of, subscriptions
from aioprod.cli.commands import COMMANDS
from aioprod.cli.rebalances import rebalances
from aioprod.group.assignors import ASSIGNORS, Subscription
from aioprod.types import TopicPartition

TWO_TOPICS = ["assign", "--topics", "orders=12,clicks=6"]
THREE = [*TWO_TOPICS, "--members", "a,b,c", "--strategy", "sticky"]


@pytest.fixture
def now(tmp_path: Path) -> str:
    """The file of a sticky assignment to three members."""
    path = str(tmp_path / "now.json")
    assert main([*THREE, "--json", path]) == 0
    return path


def refused(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a call that is wrong."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    return line.removesuffix(" (see aioprod assign --help).")


def assigned(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a call writes as JSON, and nothing else, to stdout."""
    capsys.readouterr()
    assert main([*arguments, "--json", "-"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


class TestTable:
    def test_an_assignment(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(THREE) == 0
        assert capsys.readouterr().out == (
            "sticky: 18 partitions of 2 topics, 3 members.\n"
            "\n"
            "Members.\n"
            "  member  partitions  which\n"
            "  a                6  clicks 0 3; orders 0 3 6 9\n"
            "  b                6  clicks 1 4; orders 1 4 7 10\n"
            "  c                6  clicks 2 5; orders 2 5 8 11\n"
            "\n"
            "Balance. The load of a member is the number of its partitions. Largest/mean: 1 is even.\n"
            "  members  partitions  largest  mean  least  spread  largest/mean\n"
            "        3          18        6  6.00      6       0          1.00\n"
        )

    def test_what_moves_when_one_leaves(self, now: str, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert main([*TWO_TOPICS, "--members", "a,b", "--strategy", "sticky", "--before", now]) == 0
        told = capsys.readouterr().out
        assert told.startswith(
            "sticky: 18 partitions of 2 topics, 2 members.\n\n"
            "6 of 18 partitions moved (33.3 %): 6 because the member left.\n\nMoved."
        )
        assert "\n  c       left       6      0\n" in told
        assert "\n  before        3          18        6  6.00      6       0          1.00\n" in told

    def test_what_moves_depends_on_the_strategy(self, now: str, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        for strategy, moved in (("sticky", 4), ("cooperative-sticky", 4), ("roundrobin", 12), ("range", 14)):
            assert main([*TWO_TOPICS, "--members", "a,b,c,d", "--strategy", strategy, "--before", now]) == 0
            assert f"\n\n{moved} of 18 partitions moved" in capsys.readouterr().out

    def test_a_cooperative_rebalance_is_shown_at_its_end(self, now: str, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert main([*TWO_TOPICS, "--members", "a,b,c,d", "--before", now]) == 0
        told = capsys.readouterr().out
        assert "It takes 2 rebalances: the first one takes 4 partitions from their members" in told
        assert "Gone" not in told
        assert "\n  d       joined       0      4  orders 8-11\n" in told

    def test_sizes_weigh_the_load(self, now: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "sizes.json").write_text(json.dumps({"orders": [100] + [1] * 11, "clicks": [0.5] * 6}))
        sized = [*THREE, "--sizes", str(tmp_path / "sizes.json")]
        capsys.readouterr()
        assert main([*sized, "--json", str(tmp_path / "sized.json")]) == 0
        assert "\n  a                6  104.00  clicks 0 3; orders 0 3 6 9\n" in capsys.readouterr().out
        assert main([*THREE, "--before", str(tmp_path / "sized.json")]) == 0
        from_the_file = capsys.readouterr().out
        assert "0 of 18 partitions moved (0.0 %, 0.0 % of the load)." in from_the_file
        assert main([*sized, "--before", now]) == 0
        assert capsys.readouterr().out == from_the_file

    def test_thousands_of_members_are_summarised(self, capsys: pytest.CaptureFixture[str]) -> None:
        many = ["assign", "--topics", "orders=3000", "--members", "web=2000", "--strategy", "range"]
        assert main(many) == 0
        short = capsys.readouterr().out.splitlines()
        assert len(short) < 60
        assert "  ... 1,960 more" in short
        assert max(map(len, short)) <= 120
        assert main([*many, "--all"]) == 0
        full = capsys.readouterr().out
        assert all(f"\n  web-{index:04}  " in full for index in range(2000))


class TestFiles:
    def test_what_is_written_is_read_again(self, now: str, capsys: pytest.CaptureFixture[str]) -> None:
        told = assigned([*THREE, "--before", now], capsys)
        assert told == json.loads(Path(now).read_text())
        assert told["assignment"]["a"] == {"clicks": [0, 3], "orders": [0, 3, 6, 9]}
        assert told["strategy"] == "sticky"

    def test_stickiness_goes_from_file_to_file(
        self, now: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        without = str(tmp_path / "without.json")
        sticky = [*TWO_TOPICS, "--strategy", "sticky"]
        assert main([*sticky, "--members", "a,b", "--before", now, "--json", without]) == 0
        assert f"\nThe assignment is in {without}.\n" in capsys.readouterr().out
        back = assigned([*sticky, "--members", "a,b,c", "--before", without], capsys)
        kept = json.loads(Path(without).read_text())["assignment"]
        assert all(set(back["assignment"][m]["orders"]) <= set(kept[m]["orders"]) for m in "ab")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{", "is not JSON: Expecting property name"),
            ("\x00", "is not JSON: "),
            ("[1]", "a JSON object is needed, as assign --json writes it, not [1]"),
            ("{}", "has no object 'assignment': give a file that assign --json has written"),
            ('{"assignment": {"a": [1]}}', "of member 'a' a JSON object is needed"),
            ('{"assignment": {"a": {"t": 1}}}', "of 't' of member 'a' a list of partitions is needed"),
            ('{"assignment": {"a": {"t": [-1]}}}', "a list of partitions is needed, such as [0, 1], not [-1]"),
            ('{"assignment": {"a": {"t": [true]}}}', "a list of partitions is needed"),
            ('{"assignment": {"a": {"t": [0, 0]}}}', "gives partition 0 of 't' away twice: to a"),
            ('{"assignment": {"a": {"t": [0]}, "b": {"t": [0]}}}', "partition 0 of 't' away twice: to a and b"),
            ('{"assignment": {}, "sizes": [1]}', "of sizes a JSON object is needed"),
            ('{"assignment": {}, "sizes": {"t": 1}}', "of 't' a list with a size for each partition is needed"),
            ('{"assignment": {}, "sizes": {"orders": [1]}}', "Partition 0 of 'clicks' has the size None: each needs"),
        ],
    )
    def test_files_that_are_none(
        self, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "odd.json").write_text(text)
        told = refused([*THREE, "--before", str(tmp_path / "odd.json")], capsys)
        assert told.startswith("aioprod assign: argument --before: ")
        assert said in told

    @pytest.mark.parametrize("size", ['"7"', "-1", "null", "NaN"])
    def test_sizes_that_are_none(self, size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "sizes.json").write_text(f'{{"orders": [{size}], "clicks": []}}')
        told = refused(
            ["assign", "--topics", "orders=1", "--members", "a", "--sizes", str(tmp_path / "sizes.json")], capsys
        )
        assert told.startswith("aioprod assign: argument --sizes: Partition 0 of 'orders' has the size ")

    @pytest.mark.parametrize("option", ["--json", "--picture"])
    def test_files_that_cannot_be_written(
        self, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = refused([*THREE, option, str(tmp_path / "missing" / "x.png")], capsys)
        assert told.startswith(f"aioprod assign: argument {option}: The ")
        assert told.endswith("No such file or directory")


class TestArguments:
    def test_members(self) -> None:
        told = subscriptions(["x", "y"], members_of("a, b:y,web=11:x+y,"))
        assert {member: list(subscription.topics) for member, subscription in told.items()} == {
            "a": ["x", "y"],
            "b": ["y"],
            **{f"web-{index:02}": ["x", "y"] for index in range(11)},
        }

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("3", ["member-0", "member-1", "member-2"]),
            ("2:y", ["member-0", "member-1"]),
            ("1", ["member-0"]),
            ("7,8", ["7", "8"]),
            ("7,", ["member-0", "member-1", "member-2", "member-3", "member-4", "member-5", "member-6"]),
        ],
    )
    def test_a_number_on_its_own_is_a_count(self, text: str, names: list[str]) -> None:
        told = subscriptions(["x", "y"], members_of(text))
        assert list(told) == names
        assert all(list(each.topics) == (["y"] if ":" in text else ["x", "y"]) for each in told.values())

    def test_options_may_be_repeated(self, capsys: pytest.CaptureFixture[str]) -> None:
        many = [
            "assign",
            "--topics",
            "x=2",
            "--topics",
            "y=1",
            "--members",
            "a",
            "--members",
            "b:y",
            "--strategy",
            "range",
        ]
        assert assigned(many, capsys)["assignment"] == {"a": {"x": [0, 1], "y": [0]}, "b": {}}

    @pytest.mark.parametrize(
        ("topics", "members", "said"),
        [
            ("orders", "a", "--topics: 'orders' is not a topic with its number of partitions: write it as orders=12"),
            ("=3", "a", "--topics: '=3' is not a topic with its number of partitions: write it as orders=12"),
            ("orders=x", "a", "--topics: 'x' is not a whole number from 1 to 100000"),
            ("orders=1000000", "a", "--topics: '1000000' is not a whole number from 1 to 100000"),
            (",", "a", "--topics: give topics, each once"),
            ("a=1,a=2", "a", "--topics: give topics, each once"),
            ("orders=1", ",", "--members: there is no member: give some, such as a,b,c"),
            ("orders=1", "a,a", "--members: there are two members 'a': give each a name of its own"),
            (
                "orders=1",
                "a:order",
                "--members: 'a' can't read 'order', which --topics does not have: did you mean orders?",
            ),
            ("orders=1", "a:x", "--members: 'a' can't read 'x', which --topics does not have: it has orders"),
            (
                "orders=1",
                "a:",
                "--members: 'a:' is not a member: write it as a, as a:orders+clicks or, for eight, as 8 or web=8",
            ),
            ("orders=1", "0", "--members: '0' is not a whole number from 1 to 100000"),
            ("orders=1", "web=0", "--members: '0' is not a whole number from 1 to 100000"),
        ],
    )
    def test_what_is_wrong_is_one_sentence(
        self, topics: str, members: str, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = refused(["assign", "--topics", topics, "--members", members], capsys)
        assert told == f"aioprod assign: argument {said}"

    def test_strategies_have_the_names_that_groups_use(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = refused([*TWO_TOPICS, "--members", "a", "--strategy", "round-robin"], capsys)
        assert told.startswith("aioprod assign: argument --strategy: invalid choice: 'round-robin' (choose from ")
        assert all(name in told for name in ASSIGNORS)

    def test_a_file_that_is_missing(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = refused([*THREE, "--before", "no-such-file.json"], capsys)
        assert told == "aioprod assign: argument --before: 'no-such-file.json' can't be read: No such file or directory"


class TestPicture:
    @pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
    def test_of_an_assignment(
        self, ending: str, magic: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / f"group.{ending}"
        assert main([*THREE, "--picture", str(path)]) == 0
        assert capsys.readouterr().out.endswith(f"\nThe picture is in {path}.\n")
        drawn = path.read_bytes()
        assert drawn.startswith(magic)
        assert main([*THREE, "--picture", str(path)]) == 0
        assert path.read_bytes() == drawn
        assert "matplotlib.pyplot" not in sys.modules

    @pytest.mark.parametrize(
        "group",
        [
            ["--topics", "orders=12,clicks=6", "--members", "a,b,ключ$,d"],
            ["--topics", "orders=12,clicks=6", "--members", "web=100"],
            ["--topics", ",".join(f"t{index}=100" for index in range(9)), "--members", "a,web=3:t1+t8"],
        ],
    )
    def test_before_and_after(self, group: list[str], now: str, tmp_path: Path) -> None:
        path = tmp_path / "group.png"
        assert main(["assign", *group, "--before", now, "--picture", str(path)]) == 0
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_of_another_kind(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = refused([*THREE, "--picture", "group.gif"], capsys)
        assert told == "aioprod assign: argument --picture: 'group.gif' has to end with one of .png, .svg, .pdf"

    def test_without_matplotlib(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setattr("aioprod.console.pictures.can_draw", lambda: False)
        told = refused([*THREE, "--picture", "group.png"], capsys)
        assert told == "aioprod assign: argument --picture: pictures need matplotlib: pip install 'aioprod[cli]'"


class TestProgram:
    def test_pipes_get_plain_text_whatever_the_environment_says(self) -> None:
        told = subprocess.run(
            [sys.executable, "-m", "aioprod.cli", *THREE],
            capture_output=True,
            check=True,
            env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": "20", "PYTHONIOENCODING": "ascii"},
        )
        assert b"\x1b" not in told.stdout
        assert b"\n  a                6  clicks 0 3; orders 0 3 6 9\n" in told.stdout
        assert told.stderr == b""

    def test_errors_are_a_line_and_a_status(self) -> None:
        ended = subprocess.run(
            [sys.executable, "-m", "aioprod.cli", "assign", "--topics", "x"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)

    @pytest.mark.parametrize("module", ["aioprod", "aioprod.cli"])
    def test_the_package_is_a_program_and_tells_its_version(self, module: str) -> None:
        ended = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
        build = "compiled" if aioprod.COMPILED else "interpreted"
        assert (ended.stdout, ended.stderr) == (f"aioprod {aioprod.__version__} ({build})\n", "")

    def test_help_shows_every_command_and_needs_no_extra(self) -> None:
        program = (
            "import sys; from aioprod.cli.__main__ import main\n"
            "assert main(['--help']) == 0\n"
            "assert main(['assign', '--topics', 't=1', '--members', 'a']) == 0\n"
            "assert not {'pyspark', 'pyarrow', 'numpy', 'matplotlib', 'rich'} & set(sys.modules), sorted(sys.modules)\n"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert f"usage: aioprod {{{','.join(COMMANDS)}}} ..." in ended.stdout


def test_an_assignor_that_never_gives_all_out_is_asked_some_times() -> None:
    class Withholding:
        name = "withholding"

        def assign(self, partitions: object, members: Mapping[str, Subscription]) -> dict[str, list[TopicPartition]]:
            return {member: [] for member in members}

    assert len(rebalances(Withholding(), {"t": 1}, {"a": Subscription(["t"])}, {})) == 10


# The second rebalance of a cooperative group may move partitions that the first one left alone.
@example("cooperative-sticky", {"t": 3, "u": 5}, [set(), {"t", "u"}], [{"t"}, {"t", "u"}, {"t", "u"}, {"t", "u"}])
@given(
    st.sampled_from(sorted(ASSIGNORS)),
    st.dictionaries(st.sampled_from("tuv"), st.integers(1, 9), min_size=1),
    st.lists(st.sets(st.sampled_from("tuv")), min_size=1, max_size=5),
    st.lists(st.sets(st.sampled_from("tuv")), min_size=1, max_size=5),
)
def test_every_rebalance_comes_to_an_end(
    strategy: str, topics: dict[str, int], first: list[set[str]], then: list[set[str]]
) -> None:
    def members(read: list[set[str]]) -> Any:
        words = (
            f"m{index}:{'+'.join(sorted(known))}" for index, each in enumerate(read) if (known := each & {*topics})
        )
        return subscriptions(list(topics), members_of(",".join(words) or "m0"))

    assignor = ASSIGNORS[strategy]
    before = rebalances(assignor, topics, members(first), {})[-1]
    rounds = rebalances(assignor, topics, members(then), before)
    read = {topic for subscription in members(then).values() for topic in subscription.topics}
    assert len(rounds) < 10
    assert sum(map(len, rounds[-1].values())) == sum(topics[topic] for topic in read)
