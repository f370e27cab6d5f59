"""Files that are there as a whole or not at all."""

from skerry.files import remove_file, replace_file


def test_a_file_is_replaced_as_a_whole(tmp_path):
    """And nothing else is left beside it."""
    path = tmp_path / "plan.json"
    replace_file(path, b"old")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_removed_file_leaves_nothing_of_killed_attempts(tmp_path):
    """A process that is killed while it writes leaves a part; files of other names stay."""
    path = tmp_path / "plan[1].json"
    replace_file(path, b"whole")
    (tmp_path / ".plan[1].json.0123456789abcdef.partial").write_bytes(b"ha")
    other = tmp_path / ".plan1.json.0123456789abcdef.partial"
    other.write_bytes(b"another's")
    remove_file(path)
    assert list(tmp_path.iterdir()) == [other]
    remove_file(path)
