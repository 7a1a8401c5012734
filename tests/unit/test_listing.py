"""Which files of a folder a spout is to read, which it leaves out, and why."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from acker.core.errors import SettingsError, SourceError
from acker.spouts import FileSpout
from acker.spouts.files.globs import first_match, matches
from acker.spouts.files.listing import IGNORED, list_folder, look_at
from acker.spouts.files.walking import SourceFile


@pytest.fixture
def folder(tmp_path):
    """Makes files of one byte each, and returns their folder."""

    def made(*names: str) -> str:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("x")
        return str(tmp_path)

    return made


def taken(folder: str, glob: str = "*") -> list[str]:
    files, _ = list_folder(folder, IGNORED).parted(glob, IGNORED)
    return list(files)


def left_out(folder: str, glob: str = "*") -> dict[str, int]:
    _, found = list_folder(folder, IGNORED).parted(glob, IGNORED)
    return dict(found)


def test_names_that_begin_with_an_underscore_or_a_dot_are_files_as_others(folder):
    names = (".env", "_a.csv", "__init__.py", "_day=1/b", ".git/_c", "d")
    assert taken(folder(*names)) == [".env", ".git/_c", "__init__.py", "_a.csv", "_day=1/b", "d"]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("_SUCCESS", "_SUCCESS"),
        ("_committed_4711", "_committed_*"),
        ("_started_4711", "_started_*"),
        ("_temporary/0/part-0", "_temporary"),
        ("table/_delta_log/00000000000000000000.json", "_delta_log"),
        (".part-0.parquet.crc", ".*.crc"),
        ("a.csv._COPYING_", "*._COPYING_"),
        ("a.csv.part", "*.part"),
        ("a.csv.tmp", "*.tmp"),
        (".a.csv.Xb3d_9", ".*.*.??????"),
        (".~lock.a.csv#", ".~lock.*#"),
        (".a.csv.swp", ".*.sw?"),
        ("a.csv~", "*~"),
        (".#a.csv", ".#*"),
    ],
)
def test_what_a_program_leaves_or_is_still_writing_is_left_out_with_the_pattern_of_its_name(
    folder, name, pattern
):
    assert (taken(folder(name)), left_out(folder(name))) == ([], {f"named {pattern}": 1})


def test_names_that_only_look_like_those_of_programs_are_read(folder):
    names = ("crc", "part-0", "tmp.csv", "partial.csv", "_committed", "_deltas", ".csv", "a~b", "swp")
    assert taken(folder(*names)) == sorted(names)


def test_files_that_do_not_fit_the_glob_are_counted_and_the_rule_of_names_comes_first(folder):
    root = folder("a.py", "b.txt", "c.txt", "_SUCCESS", "sub/d.py")
    assert (taken(root, "*.py"), left_out(root, "*.py")) == (
        ["a.py", "sub/d.py"],
        {"named _SUCCESS": 1, "not named *.py": 2},
    )


def test_a_spout_can_have_a_rule_of_its_own(folder):
    spout = FileSpout(folder("a.tmp", "b.old", "c"), ignore=("*.old",))
    assert list(list_folder(spout.folder).parted(spout.glob, spout.ignore)[0]) == ["a.tmp", "c"]


def test_a_file_has_its_length_and_the_millisecond_of_its_change(folder):
    root = folder("a")
    os.utime(f"{root}/a", ns=(0, 1_700_000_000_123_999_999))
    assert list_folder(root).files == {"a": SourceFile(bytes=1, changed_millis=1_700_000_000_123)}
    assert list_folder(root).files["a"].mark == "1:1700000000123"


def linked(root: Path, links: dict[str, str]) -> None:
    for name, target in links.items():
        (root / name).symlink_to(target)


SAME = "the same as a file that is read under another name"
SAME_FOLDER = "links to folders that are read under another name"


@pytest.mark.parametrize(
    ("links", "read", "why"),
    [
        ({"to_a": "a"}, [], {f"{SAME} (to_a)": 1}),
        ({"sub/to_a": "../a"}, [], {f"{SAME} (sub/to_a)": 1}),
        ({"latest": "sub"}, [], {f"{SAME_FOLDER} (latest)": 1}),
        ({"current": ".", "sub/up": ".."}, [], {f"{SAME_FOLDER} (current, sub/up)": 2}),
        ({"out": "../out"}, ["out/c"], {}),
        pytest.param(  # which ends also where a folder is entered over each of its links
            {"1": "../out", "2": "../out/", "3": "1"}, ["1/c"], {f"{SAME_FOLDER} (2, 3)": 2}, id="no_circle"
        ),
        ({"up": ".."}, ["up/out/c"], {f"{SAME_FOLDER} (up/in)": 1}),
        ({"1": "../out/c", "2": "../out/c"}, ["1"], {f"{SAME} (2)": 1}),
        ({"x": "_temporary"}, ["x/d"], {}),
        ({"no": "nowhere", "round": "round"}, [], {"links that lead nowhere (no, round)": 2}),
    ],
)
def test_a_file_is_read_once_whatever_links_lead_to_it(tmp_path, links, read, why):
    for name in ("in/a", "in/sub/b", "in/_temporary/d", "out/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    linked(tmp_path / "in", links)
    root = str(tmp_path / "in")
    assert taken(root) == sorted(["a", "sub/b", *read])
    assert left_out(root) == {"named _temporary": 1} | why


def test_a_file_of_several_names_has_the_first_of_them_and_a_hard_link_is_one(folder, tmp_path):
    root = folder("b")
    os.link(tmp_path / "b", tmp_path / "a")
    (tmp_path / "0").symlink_to("b")
    assert (taken(root), left_out(root)) == (["a"], {f"{SAME} (0, b)": 2})
    assert (taken(root, "[0b]"), left_out(root, "[0b]")) == (["b"], {"not named [0b]": 1, f"{SAME} (0)": 1})


@pytest.mark.parametrize(
    ("known", "links"),
    [
        ("b", {"a": "b"}),
        ("link/c", {"0": "../out", "link": "../out"}),
        ("link/c", {"link": "../out", "0": "link/c"}),
        ("link/in/sub/c", {"link": "..", "sub": "../out"}),
        ("sub/to/c", {"sub": "../in", "to": "../out"}),
    ],
)
def test_a_file_that_was_read_is_not_read_again_under_a_name_that_comes_before(tmp_path, known, links):
    for name in ("in/b", "out/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    linked(tmp_path / "in", links)
    found = list_folder(str(tmp_path / "in"), IGNORED)
    assert (tmp_path / "in" / known).exists()
    read, _ = found.parted("*", IGNORED, known={known, "b"})
    assert list(read) == []


def test_what_is_no_file_is_told_and_never_opened(folder, tmp_path):
    root = folder("a", "b.json/c")
    (tmp_path / "empty").write_text("")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(tmp_path / "socket"))
    names = "null, pipe, socket and 1 more"
    assert taken(root) == ["a", "b.json/c"]
    assert left_out(root) == {f"that are pipes, sockets or devices ({names})": 4}
    assert look_at(root, ["pipe", "null", "b.json"]) == {}


AS_NOBODY = """
import os, sys
from acker.spouts.files.listing import list_folder
os.setgid(65534); os.setuid(65534)
read, why = list_folder(sys.argv[1]).parted("*", ())
print(list(read), dict(why))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_what_this_user_may_not_read_is_told_and_the_rest_is_read(tmp_path_factory):
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        for name in ("a", "b", "sub/c"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("x")
        root.chmod(0o755)
        (root / "b").chmod(0)
        (root / "sub").chmod(0)
        command = [sys.executable, "-c", AS_NOBODY, made]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    no_entry = "'that cannot be looked at: Permission denied (sub)': 1"
    assert found == f"['a'] {{{no_entry}, 'that this user may not read (b)': 1}}\n"


def test_a_name_that_is_no_text_is_counted(folder, tmp_path):
    root = folder("a")
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    assert (taken(root), left_out(root)) == (["a"], {"with a name that is not UTF-8": 1})


@pytest.mark.parametrize(
    ("made", "why"), [("nowhere", "it is not there"), ("file", "it is a file")], ids=["missing", "file"]
)
def test_a_folder_that_cannot_be_listed_is_named(folder, made, why):
    root = folder("file")
    with pytest.raises(SourceError, match=f"^The folder {root}/{made} cannot be read: {why}[.]$"):
        list_folder(f"{root}/{made}")


def test_a_folder_may_be_given_as_a_uri_and_its_name_may_hold_anything(folder, tmp_path):
    folder("odd [1] 50%20/a b")
    for root in (
        f"{tmp_path}/odd [1] 50%20",
        f"file://{tmp_path}/odd [1] 50%20",
        f"{tmp_path}/odd [1] 50%20/",
    ):
        assert taken(root) == ["a b"]


@pytest.mark.parametrize(
    ("pattern", "fit", "do_not"),
    [
        ("*.py", ("a.py", ".py", "a\n.py"), ("a.pyc", "a/py")),
        ("a?c", ("abc", "a\nc"), ("ac",)),
        ("[a-c]1", ("a1", "c1"), ("d1",)),
        ("[!a]1", ("b1",), ("a1",)),
        ("[^a]1", ("b1",), ("a1",)),
        ("*[/b].json", ("b.json", "x/.json"), ("a.json",)),
        ("{a,b*}.txt", ("a.txt", "bc.txt"), ("c.txt",)),
        ("a,b", ("a,b",), ("a",)),
        (r"\*\{", ("*{",), ("a{",)),
        ("a+(1)$", ("a+(1)$",), ("aa1",)),
        ("", ("",), ("a",)),
    ],
)
def test_a_pattern_is_read_as_spark_reads_it(pattern, fit, do_not):
    assert [matches(name, pattern) for name in (*fit, *do_not)] == [True] * len(fit) + [False] * len(do_not)


def test_the_first_pattern_that_a_name_fits_is_told():
    assert [first_match(name, ("a", "?", "a|c")) for name in ("a", "b", "a|c", "cd")] == [
        "a",
        "?",
        "a|c",
        None,
    ]
    assert first_match("a", ()) is None


@pytest.mark.parametrize("wrong", ["[a", "{a", "a\\", "[]"])
@pytest.mark.parametrize("argument", ["glob", "ignore"])
def test_what_is_no_pattern_is_refused_when_the_spout_is_made(argument, wrong):
    with pytest.raises(SourceError, match=r"is not a pattern of file names\. Close every"):
        FileSpout("folder", **{argument: wrong if argument == "glob" else (wrong,)})


def test_files_are_looked_at_as_the_listing_has_them_without_those_that_are_not_there(folder):
    root = folder("a", "b c/%20ü", "empty")
    open(f"{root}/empty", "w").close()
    found = look_at(root, ["b c/%20ü", "a", "gone", "b c", "empty"])
    assert found == dict(list_folder(root).files)
    assert look_at(root, []) == {}


@pytest.mark.parametrize(("name", "why"), [("gone", "is not there"), ("a", "is a file")])
def test_without_its_folder_no_file_is_taken_for_lost(folder, name, why):
    with pytest.raises(SourceError, match=why):
        look_at(f"{folder('a')}/{name}", ["b"])


def test_a_pattern_that_is_given_as_all_patterns_is_refused():
    with pytest.raises(
        SettingsError, match=r"ignore of FileSpout is '\*.bak', a text .*Give it a tuple of texts"
    ):
        FileSpout("in", ignore="*.bak")
    assert FileSpout("in", ignore=["*.bak"]).ignore == ("*.bak",)


def test_files_of_a_delta_table_are_left_out_wherever_its_folder_is(folder):
    root = folder(
        *("a.parquet", "t/_delta_log/0.json", "t/b.parquet", "t/day=1/c.parquet"),
        *("tt/d.parquet", "not_delta_log/e.parquet", "deep/er/_delta_log/0.json", "deep/er/f.parquet"),
    )
    assert taken(root) == ["a.parquet", "not_delta_log/e.parquet", "tt/d.parquet"]
    why = "of a Delta table, which a DeltaSpout reads (deep/er/f.parquet, t/b.parquet, t/day=1/c.parquet)"
    assert left_out(root) == {"named _delta_log": 2, why: 3}
    for part in ("t", "t/day=1", "deep/er"):
        assert taken(f"{root}/{part}") == []
    assert taken(f"{root}/deep") == []
    assert [*list_folder(f"{root}/t/_delta_log").parted("*", ())[0]] == ["0.json"]


def test_a_file_that_was_read_before_its_folder_became_a_delta_tables_stays_read(folder):
    listing = list_folder(folder("_delta_log/0.json", "a", "b"))
    taken, left_out = listing.parted("*", IGNORED, known={"a"})
    why = "of a Delta table, which a DeltaSpout reads (b)"
    assert (taken, dict(left_out)) == ({}, {"named _delta_log": 1, why: 1})
