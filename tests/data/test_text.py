"""Texts are read from where they are said to be, and what is wrong with a file is said."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from hf_depth import DepthError
from hf_depth.data import load_texts, split_held_out


def test_the_sample_has_two_splits_that_share_no_text() -> None:
    train, validation = load_texts(), load_texts(split="validation")
    assert (len(train), len(validation)) == (12_000, 1_000)
    assert not set(train) & set(validation)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"one\n\n  two \n"),
        ("a.jsonl", b'{"text": "one"}\n{"text": ""}\n{"text": "two"}\n'),
        ("a.csv", b"id,text\n1,one\n2,\n3,two\n"),
        ("a.json", b'[{"text": "one"}, {"text": null}, {"text": "two"}]'),
        ("a.txt.gz", gzip.compress(b"one\ntwo\n", mtime=0)),
        ("bom.txt", b"\xef\xbb\xbfone\r\ntwo\r\n"),
        ("bom.csv", b"\xef\xbb\xbftext,id\none,1\ntwo,2\n"),
        ("a [1] *.txt", b"one\ntwo\n"),
    ],
)
def test_local_files_are_read(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert load_texts(tmp_path / name) == ["one", "two"]


@pytest.mark.parametrize("pack", [bytes, lambda content: gzip.compress(content, mtime=0)], ids=["plain", "gz"])
def test_a_changed_file_is_read_anew_even_with_its_old_time(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / f"a.txt{'' if pack is bytes else '.gz'}"
    for text in ("one", "two"):
        path.write_bytes(pack(text.encode()))
        os.utime(path, (1, 1))
        assert load_texts(path) == [text]


def test_only_the_named_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a*.txt").write_text("named\n")
    (tmp_path / "ab.txt").write_text("another\n")
    assert load_texts(tmp_path / "a*.txt") == ["named"]


def test_a_data_set_of_the_hub_is_asked_for_by_id_configuration_and_split(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(*name: str | None, split: str) -> datasets.Dataset:
        asked.append((*name, split))
        return datasets.Dataset.from_dict({"text": ["one"]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert load_texts("someone/texts:small", split="test") == load_texts("someone/texts") == ["one"]
    assert asked == [("someone/texts", "small", "test"), ("someone/texts", None, "train")]


@pytest.mark.parametrize("error", [ConnectionError, ValueError, RuntimeError, datasets.exceptions.DatasetsError])
def test_a_data_set_that_cannot_be_loaded_is_an_error(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*name: str | None, split: str) -> datasets.Dataset:
        raise error("the reason")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DepthError, match=r"someone/texts is neither a file.*the reason"):
        load_texts("someone/texts")


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_file_has_no_other_split(split: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(DepthError, match=f"no split '{split}'"):
        load_texts(tmp_path / "a.txt", split=split)


def test_the_sample_has_no_other_split() -> None:
    with pytest.raises(DepthError, match="train and validation, not 'test'"):
        load_texts(split="test")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(DepthError, match="at least 1"):
        load_texts(limit=limit)


def test_a_named_field_and_a_limit_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": str(row), "note": f"n{row}"}) + "\n" for row in range(5)))
    assert load_texts(path, field="note", limit=2) == ["n0", "n1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b" \n\n", "is empty"),
        ("a.txt", b"caf\xe9\n", r"not UTF-8: byte 3 is 0xe9"),
        ("a.txt.gz", gzip.compress(b"caf\xe9\n", mtime=0), r"not UTF-8: byte 3 is 0xe9"),
        ("a.txt.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("a.txt.gz", b"plain", "cannot be read: Not a gzipped file"),
        ("a.txt.gz", gzip.compress(b"one\ntwo\n", mtime=0)[:-9], "cannot be read: Compressed file ended"),
        ("a.csv", b"id,text\n1,2\n", "'text' of .* holds int64, not text"),
        ("a.jsonl", b'{"text": ["one"]}\n', "not text"),
        ("a.jsonl", b'{"text": null}\n', "holds no text"),
        ("a.jsonl", b'{"title": "x"}\n', r"none of the fields.*title"),
        ("a.jsonl", b'{"text": ""}\n', "holds no text"),
        ("a.jsonl", b"{broken\n", "cannot be read as"),
        ("a.pdf", b"%PDF", r"\.pdf.*\.txt"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_why(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DepthError, match=message):
        load_texts(tmp_path / name)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DepthError, match="There is no file"):
        load_texts(tmp_path / "a.txt")


def test_a_missing_field_is_an_error_that_lists_the_fields(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,one\n")
    with pytest.raises(DepthError, match=r"no field 'body'.*id, text"):
        load_texts(tmp_path / "a.csv", field="body")


def test_held_out_texts_are_distinct_and_do_not_depend_on_the_order() -> None:
    texts = [f"text {number % 40}" for number in range(100)]
    train, held_out = split_held_out(texts, 10)
    assert len(held_out) == 10
    assert not set(train) & set(held_out)
    assert set(train) | set(held_out) == set(texts)
    assert set(split_held_out(texts[::-1], 10)[1]) == set(held_out)
    assert set(split_held_out(texts, 10, seed=1)[1]) != set(held_out)


def test_holding_out_nothing_is_an_error() -> None:
    with pytest.raises(DepthError, match="At least 1"):
        split_held_out(["a", "b"], 0)


def test_holding_out_everything_is_an_error() -> None:
    with pytest.raises(DepthError, match="2 different ones"):
        split_held_out(["a", "b", "a"], 2)
