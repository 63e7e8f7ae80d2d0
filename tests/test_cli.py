"""The command line does what the functions do; bad input is one sentence, a non-zero exit, and nothing touched."""

import json
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, BertModel
from typer.testing import CliRunner, Result

from hf_depth import DepthEncoderForMaskedLM, DepthEncoderModel
from hf_depth.cli import app
from tests.checkpoints import tiny_bert, tiny_text


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "bert")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tiny_text(tmp_path / "text.txt")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    error = result.stderr.strip().splitlines()[-1]  # what stands before it is progress
    assert error.startswith("error: ")
    assert "Traceback" not in result.output
    assert all(part in error for part in parts), error


def test_convert_writes_a_family_model_and_the_tokenizer(bert: Path, tmp_path: Path) -> None:
    result = run("convert", bert, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert type(AutoModel.from_pretrained(tmp_path / "out")) is DepthEncoderModel
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("w1 w2")["input_ids"] == [2, 6, 7, 3]


def test_resize_keeps_a_stock_model_stock_and_prints_the_map(bert: Path, tmp_path: Path) -> None:
    result = run("resize", bert, tmp_path / "out", "--plan", "0,3")
    assert result.exit_code == 0, result.output
    model = BertModel.from_pretrained(tmp_path / "out")
    assert model.config.num_hidden_layers == len(model.encoder.layer) == 2
    assert "│ layers │ 1     │ 3          │" in result.output


def test_card_is_written_beside_a_model(bert: Path, tmp_path: Path) -> None:
    run("convert", bert, tmp_path / "out")
    assert run("card", tmp_path / "out").exit_code == 0
    assert "Nothing was measured" in (tmp_path / "out/README.md").read_text()
    assert_refused(run("card", tmp_path / "out"), "README.md exists", "--force")
    assert run("card", tmp_path / "out", "--force").exit_code == 0


@pytest.mark.parametrize("masked", [False, True], ids=["bare", "masked-lm"])
def test_demo_does_the_main_job_on_a_checkpoint_and_text_of_ones_own(masked: bool, text: Path, tmp_path: Path) -> None:
    source = tiny_bert(tmp_path / "bert", masked=masked)
    out = tmp_path / "out"
    result = run("demo", source, "--text", text, "--out", out, "--steps", 8, "--layers", 2)
    assert result.exit_code == 0, result.output
    results = json.loads((out / "results.json").read_text())
    for name, layers in (("teacher", 4), ("cut", 2), ("healed", 2)):
        assert results[name]["layers"] == layers
        assert {"parameters", "cosine", "spearman", "latency_ratio"} <= set(results[name])
    assert results["teacher"]["cosine"] == pytest.approx(1.0)
    assert results["healed"]["cosine"] != results["cut"]["cosine"]
    loaded = (AutoModelForMaskedLM if masked else AutoModel).from_pretrained(out)
    assert type(loaded) is (DepthEncoderForMaskedLM if masked else DepthEncoderModel)
    assert loaded.config.num_hidden_layers == 2
    assert not [name for name in load_file(out / "model.safetensors") if "teacher" in name or "projection" in name]
    assert Image.open(out / "healing.png").format == "PNG"
    assert "| healed | 2 |" in (out / "README.md").read_text()
    assert str(tmp_path) not in (out / "README.md").read_text().split("How it was made")[0]
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "config.json",
        "healing.png",
        "model.safetensors",
        "results.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert "from_pretrained(" in result.output


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--plan", "0,9"], ["Layer 9", "0-3"]),
        (["--plan", ""], ["empty"]),
        (["--plan", "decoder=0"], ["decoder", "layers"]),
        (["--layers", "0"], ["0"]),
        (["--layers", "9"], ["9"]),
        (["--layers", "2", "--plan", "0"], ["either"]),
        ([], ["either"]),
        (["--layers", "2", "--strategy", "luck"], ["luck", "even"]),
    ],
)
def test_resize_refuses_plans_that_do_not_fit(
    options: list[str], parts: list[str], bert: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    assert_refused(run("resize", bert, tmp_path / "out", *options), *parts)
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_a_width_is_no_option_of_resize(bert: Path, tmp_path: Path) -> None:
    result = run("resize", bert, tmp_path / "out", "--layers", 2, "--hidden-size", 8)
    assert result.exit_code == 2
    assert "--hidden-size" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["convert", "resize", "demo"])
def test_an_output_folder_in_use_is_left_as_it_is(command: str, bert: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    words = {
        "convert": ["convert", bert, out],
        "resize": ["resize", bert, out, "--layers", 2],
        "demo": ["demo", bert, "--text", text, "--out", out, "--steps", 1],
    }[command]
    assert_refused(run(*words), "not empty")
    assert snapshot(out) == {"mine.txt": b"mine"}


def unknown_architecture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "gpt2", "architectures": ["GPT2Model"]}))


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def truncated_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-50])


def impossible_heads(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 3}))


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (unknown_architecture, ["gpt2"]),
        (no_weights, ["model.safetensors"]),
        (truncated_weights, ["cannot be loaded"]),
        (impossible_heads, ["16", "3"]),
    ],
)
@pytest.mark.parametrize("command", ["convert", "demo"])
def test_a_damaged_checkpoint_is_refused(
    command: str, damage: object, parts: list[str], bert: Path, text: Path, tmp_path: Path
) -> None:
    damage(bert)
    out = tmp_path / "out"
    words = {"convert": ["convert", bert, out], "demo": ["demo", bert, "--text", text, "--out", out]}[command]
    assert_refused(run(*words), *parts)
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "part"), [(b"", "is empty"), (b"caf\xe9", "not UTF-8"), (b"one line\n", "different ones")]
)
def test_text_that_cannot_be_used_is_refused(content: bytes, part: str, bert: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    assert_refused(run("demo", bert, "--text", tmp_path / "text.txt", "--out", tmp_path / "out"), part)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_that_is_not_there_is_refused(text: Path, tmp_path: Path) -> None:
    assert_refused(run("convert", tmp_path / "nothing", tmp_path / "out"), "cannot be loaded")


def test_a_file_is_no_checkpoint_and_is_never_unpickled(bert: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        assert_refused(run("convert", bert / name, tmp_path / "out"), "is a file")


def test_a_place_where_no_folder_can_be_made_is_refused_before_the_work(bert: Path, text: Path) -> None:
    result = run("demo", bert, "--text", text, "--out", "/proc/nothing/out")
    assert_refused(result, "/proc/nothing/out")
    assert "Teacher" not in result.output


def test_a_demo_that_fails_leaves_nothing(bert: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    assert_refused(run("demo", bert, "--text", tmp_path / "nothing.txt", "--out", tmp_path / "out"), "no file")
    assert snapshot(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"bert"}
