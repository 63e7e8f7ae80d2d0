"""Rebuilds the embedded sample, byte for byte, from the full Debian descriptions.

    python -m hf_depth.data.sample.build_sample SOURCE_DIR [OUT_DIR]

SOURCE_DIR holds `train.jsonl.gz` and `validation.jsonl.gz` with `id`, `section`, `representative`, `document` and
`summary`. One row a source package is taken (`representative`), the first paragraph of its description, in an order
that depends on the ids alone.
"""

import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROWS = {"train": 12_000, "validation": 1_000}
MIN_WORDS = 5


def select(rows: Iterator[dict], count: int, exclude: set[str]) -> list[dict]:
    """`count` rows with distinct first paragraphs not in `exclude`, chosen and ordered by a hash of their ids."""
    chosen: dict[str, dict] = {}
    for row in sorted(rows, key=lambda row: hashlib.sha256(row["id"].encode()).hexdigest()):
        document = " ".join(row["document"].split("\n\n")[0].split())
        if (
            row["representative"]
            and document not in chosen
            and document not in exclude
            and len(document.split()) >= MIN_WORDS
        ):
            chosen[document] = {
                "id": row["id"],
                "section": row["section"],
                "document": document,
                "summary": row["summary"],
            }
        if len(chosen) == count:
            break
    return list(chosen.values())


def read(path: Path) -> Iterator[dict]:
    """Rows of a gzip'd JSON lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def write(rows: list[dict], path: Path) -> None:
    """Gzip'd JSON lines without a time or a name in the header, so that equal rows give equal bytes."""
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))


def build(source: Path, out: Path) -> None:
    """Write both splits; no training paragraph stands in validation."""
    validation = select(read(source / "validation.jsonl.gz"), ROWS["validation"], set())
    train = select(read(source / "train.jsonl.gz"), ROWS["train"], {row["document"] for row in validation})
    write(validation, out / "descriptions.validation.jsonl.gz")
    write(train, out / "descriptions.train.jsonl.gz")


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent)
