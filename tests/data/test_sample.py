"""The embedded sample is small, licensed, and rebuilt byte for byte."""

import gzip
import json
import re
from pathlib import Path

import pytest

from hf_depth.data import sample
from hf_depth.data.sample import build_sample

FOLDER = Path(sample.__file__).parent
FILES = sorted(path.name for path in FOLDER.glob("*.gz"))


def test_the_sample_is_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.is_file()}
    assert sum(sizes.values()) <= 2_000_000
    assert sum(size for name, size in sizes.items() if name.startswith("descriptions.")) <= 1_600_000


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_its_licence_and_no_time_stamp(name: str) -> None:
    assert f"`{name}`" in (FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    assert (FOLDER / name).read_bytes()[4:8] == bytes(4)


def test_the_novel_has_its_chapters_in_order() -> None:
    text = gzip.decompress((FOLDER / "moby-dick.txt.gz").read_bytes()).decode("utf-8")
    chapters = re.findall(r"^CHAPTER (\d+)\.", text, re.MULTILINE)
    assert chapters == [str(number) for number in range(1, 136)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Full data in small: rows that repeat documents within and across the splits."""
    for folder in ("debian-descriptions", "long-text"):
        (tmp_path / "source" / folder).mkdir(parents=True)
    for split, count in (("train", 60), ("validation", 9)):
        rows = [
            {
                "id": f"{split}{number}",
                "section": "misc",
                "representative": number % 3 != 0,
                "document": f"a description of package number {number % 20}\n\nmore",
                "summary": "a package",
            }
            for number in range(count)
        ]
        _write_rows(tmp_path / "source" / "debian-descriptions" / f"{split}.jsonl.gz", rows)
    (tmp_path / "source" / "long-text" / "moby-dick.txt.gz").write_bytes(gzip.compress(b"Call me Ishmael.\n"))
    return tmp_path / "source"


def test_equal_rows_in_any_order_give_equal_bytes(source: Path, tmp_path: Path) -> None:
    first = _build(source, tmp_path / "one")
    for path in (source / "debian-descriptions").iterdir():
        _write_rows(path, list(build_sample.read(path))[::-1])
    assert _build(source, tmp_path / "two") == first
    assert sorted(first) == FILES


def test_built_splits_share_no_document(source: Path, tmp_path: Path) -> None:
    _build(source, tmp_path / "out")
    documents = {
        split: [row["document"] for row in build_sample.read(tmp_path / "out" / f"descriptions.{split}.jsonl.gz")]
        for split in ("train", "validation")
    }
    # Of 20 documents, all in train, 6 representative ones stand in validation too.
    assert {split: len(rows) for split, rows in documents.items()} == {"train": 14, "validation": 6}
    assert len(set(documents["train"]) | set(documents["validation"])) == 20


def _write_rows(path: Path, rows: list[dict]) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def _build(source: Path, out: Path) -> dict[str, bytes]:
    out.mkdir()
    build_sample.build(source, out)
    return {path.name: path.read_bytes() for path in out.iterdir()}
