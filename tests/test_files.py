"""Output folders are whole or not there, and never take anything of the user's with them."""

from pathlib import Path

import pytest

from hf_depth.errors import DepthError
from hf_depth.files import check_free, new_folder, remove_folder


def test_folder_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    with new_folder(target) as folder:
        (folder / "config.json").write_text("{}")
        assert folder.parent == target.parent
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["config.json"]
    assert list(target.parent.iterdir()) == [target]


def test_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "model") as folder:
        (folder / "half").write_text("")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_new_folder_has_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    with new_folder(tmp_path / "model"):
        pass
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_empty_folder_is_filled_and_stays_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "here"
    target.mkdir()
    inode = target.stat().st_ino
    monkeypatch.chdir(target)
    with new_folder(".") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text("text")
    assert target.stat().st_ino == inode
    assert (target / "sub" / "file").read_text() == "text"
    assert list(tmp_path.iterdir()) == [target]


def test_folder_in_use_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(DepthError, match="is not empty; choose another folder"), new_folder(tmp_path):
        pytest.fail("no work is to be done")
    assert (tmp_path / "mine").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(DepthError, match="is a file"):
        check_free(file)
    with pytest.raises(DepthError, match=f"because {file} is a file"):
        check_free(file / "below")


def test_folder_that_was_filled_meanwhile_is_untouched(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with pytest.raises(DepthError, match="is not empty"), new_folder(target) as folder:
        (folder / "file").write_text("new")
        target.mkdir()
        (target / "file").write_text("mine")
    assert (target / "file").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [target]


def test_removed_folder_is_gone(tmp_path: Path) -> None:
    (tmp_path / "old" / "sub").mkdir(parents=True)
    remove_folder(tmp_path / "old")
    assert list(tmp_path.iterdir()) == []
