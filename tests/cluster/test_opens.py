"""What the kernel tells of opened files is counted right."""

from pathlib import Path

from tests.cluster.opens import watched


def test_each_opening_counts_once(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("")
    with watched(tmp_path) as opens:
        assert opens.counted() == {}
        for _ in range(3):
            file.read_text()
        file.stat()
        other.write_text("")
        assert +opens.counted() == {"file": 3, "other": 1}
        assert +opens.counted() == {}
