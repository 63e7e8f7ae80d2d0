"""Rebuilds the embedded sample, byte for byte where zlib is the same, from the full data.

    python -m hf_depth.data.sample.build_sample SOURCE_DIR [OUT_DIR]

SOURCE_DIR holds `debian-descriptions/` with `train.jsonl.gz` and `validation.jsonl.gz`, whose rows have `id`,
`section`, `representative`, `document` and `summary`, and `long-text/moby-dick.txt.gz`. One row a source package is
taken (`representative`), the first paragraph of its description, in an order that depends on the ids alone; the novel
is taken as it is.
"""

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

DESCRIPTIONS = "debian-descriptions"
NOVEL = "moby-dick.txt.gz"
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


def write(content: bytes, path: Path) -> None:
    """Gzip without a time or a name in the header, so that equal content gives equal bytes."""
    path.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))


def as_lines(rows: list[dict]) -> bytes:
    """Rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows).encode("utf-8")


def build(source: Path, out: Path) -> None:
    """Write both splits, of which no training paragraph stands in validation, and the novel."""
    descriptions = source / DESCRIPTIONS
    validation = select(read(descriptions / "validation.jsonl.gz"), ROWS["validation"], set())
    train = select(read(descriptions / "train.jsonl.gz"), ROWS["train"], {row["document"] for row in validation})
    write(as_lines(validation), out / "descriptions.validation.jsonl.gz")
    write(as_lines(train), out / "descriptions.train.jsonl.gz")
    write(gzip.decompress((source / "long-text" / NOVEL).read_bytes()), out / NOVEL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Rebuild the embedded sample from the full data.")
    parser.add_argument("source", type=Path, metavar="SOURCE_DIR")
    parser.add_argument("out", type=Path, nargs="?", default=Path(__file__).parent, metavar="OUT_DIR")
    arguments = parser.parse_args()
    build(arguments.source, arguments.out)
