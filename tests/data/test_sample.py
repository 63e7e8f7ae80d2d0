"""The embedded sample is small, licensed, and rebuilt byte for byte."""

import gzip
import json
from pathlib import Path

from hf_depth.data import sample
from hf_depth.data.sample import build_sample

FOLDER = Path(sample.__file__).parent


def test_the_sample_is_small_and_comes_with_its_licence() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gz")) < 2_000_000
    assert "licence" in (FOLDER / "LICENSES.md").read_text(encoding="utf-8")


def test_building_twice_gives_the_same_bytes_and_disjoint_splits(tmp_path: Path) -> None:
    for split in ("train", "validation"):
        rows = [
            {
                "id": f"{split}{number}",
                "section": "misc",
                "representative": number % 3 != 0,
                "document": f"a description of package number {number % 20}\n\nmore",
                "summary": "a package",
            }
            for number in range(60)
        ]
        with gzip.open(tmp_path / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows[: 60 if split == "train" else 9])
    built = []
    for name in ("one", "two"):
        out = tmp_path / name
        out.mkdir()
        build_sample.build(tmp_path, out)
        built.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert built[0] == built[1]
    documents = {
        split: {row["document"] for row in build_sample.read(tmp_path / "one" / f"descriptions.{split}.jsonl.gz")}
        for split in ("train", "validation")
    }
    assert documents["train"] and documents["validation"]
    assert not documents["train"] & documents["validation"]
