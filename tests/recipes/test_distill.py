"""Every config of the recipe runs to its end on a tiny checkpoint; a misspelt key is an error; a run is resumed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from transformers import AutoModel, AutoModelForMaskedLM

import hf_depth.recipes.configs.distill as configs
from hf_depth import DepthError
from hf_depth.recipes.distill import DistillArguments, main
from hf_depth.training.parsing import parse_arguments
from tests.checkpoints import tiny_bert, tiny_text

CONFIGS = sorted(Path(configs.__file__).parent.glob("*.yaml"))


@pytest.fixture
def setting(tmp_path: Path) -> list[str]:
    """Options that make any config small."""
    options = {
        "teacher": tiny_bert(tmp_path / "bert", masked=True),
        "text": tiny_text(tmp_path / "text.txt"),
        "output_dir": tmp_path / "out",
        "max_steps": 4,
        "eval_steps": 2,
        "save_steps": 2,
        "held_out": 10,
        "max_length": 16,
        "per_device_train_batch_size": 4,
        "disable_tqdm": "true",
        "mixed_precision": "no",
    }
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


@pytest.mark.parametrize("config", CONFIGS, ids=[path.stem for path in CONFIGS])
def test_every_config_runs_to_a_loadable_model_with_a_card(config: Path, setting: list[str], tmp_path: Path) -> None:
    if "cache_teacher" in config.read_text():
        tiny_bert(tmp_path / "bert")
    results = main([config.name, *setting])
    out = tmp_path / "out"
    auto = AutoModel if "cache_teacher" in config.read_text() else AutoModelForMaskedLM
    loaded, info = auto.from_pretrained(out, output_loading_info=True)
    assert loaded.config.num_hidden_layers == results["healed"]["layers"] == 2
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert "| healed | 2 |" in (out / "README.md").read_text()
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert any("eval_spearman" in row for row in rows)


@pytest.mark.parametrize("config", CONFIGS, ids=[path.stem for path in CONFIGS])
def test_every_key_of_a_config_is_an_argument(config: Path, tmp_path: Path) -> None:
    args = parse_arguments(DistillArguments, [str(config), "--output_dir", str(tmp_path / "out")])
    for key, value in yaml.safe_load(config.read_text()).items():
        assert getattr(args, key) == value


def test_a_misspelt_key_is_an_error_that_names_the_right_one(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("output_dir: out\nlearning_rat: 1.0e-3\n")
    with pytest.raises(DepthError, match=r"'learning_rat'.*'learning_rate'"):
        parse_arguments(DistillArguments, [str(path)])


def test_a_misspelt_option_is_an_error_that_names_the_right_one() -> None:
    with pytest.raises(DepthError, match=r"--learning_rat.*'learning_rate'"):
        parse_arguments(DistillArguments, ["--output_dir", "out", "--learning_rat", "1"])


def test_a_file_that_is_no_mapping_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("- a\n- b\n")
    with pytest.raises(DepthError, match="list"):
        parse_arguments(DistillArguments, [str(path)])


def test_what_the_command_line_says_wins(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("output_dir: out\nlearning_rate: 1.0e-3\nlayers: 4\n")
    args = parse_arguments(DistillArguments, [str(path), "--learning_rate", "2e-3"])
    assert (args.learning_rate, args.layers) == (2e-3, 4)


def test_a_student_of_its_own_is_trained(setting: list[str], tmp_path: Path) -> None:
    tiny_bert(tmp_path / "student", masked=True, layers=1)
    results = main([*setting, "--student", str(tmp_path / "student"), "--logits", "1", "--hidden", "1"])
    assert results["healed"]["layers"] == 1


@pytest.mark.parametrize(
    "options", [["--layers", "0"], ["--layers", "9"], ["--plan", ""], ["--layers", "2", "--plan", "0"]]
)
def test_a_depth_that_cannot_be_had_is_refused(options: list[str], setting: list[str], tmp_path: Path) -> None:
    with pytest.raises(DepthError):
        main([*setting, *options, "--logits", "1"])
    assert not (tmp_path / "out").exists()


@pytest.mark.heavy
def test_a_run_that_is_killed_is_resumed_to_the_same_weights(setting: list[str], tmp_path: Path) -> None:
    words = [
        "masked_lm.yaml",
        *setting,
        "--max_steps",
        "12",
        "--save_steps",
        "4",
        "--gradient_accumulation_steps",
        "2",
    ]

    def command(out: str, *more: str) -> list[str]:
        module = [sys.executable, "-m", "hf_depth.recipes.distill"]
        return [*module, *words, "--output_dir", str(tmp_path / out), *more]

    subprocess.run(command("whole"), check=True, capture_output=True)
    killed = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "killed/checkpoint-4").exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "killed/model.safetensors").exists()
    subprocess.run(command("killed", "--resume_from_checkpoint", "latest"), check=True, capture_output=True)
    whole, resumed = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert resumed == whole
