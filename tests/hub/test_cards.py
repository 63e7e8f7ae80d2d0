"""Cards hold what was measured and the plan, load as valid metadata, and show text from outside as text."""

from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st

from hf_depth import DepthEncoderConfig, DepthEncoderForMaskedLM, DepthEncoderModel, DepthError, resize
from hf_depth.hub import model_card
from hf_depth.hub.escape import escape_markdown, fence
from tests.conftest import TINY

RENDERED = Path(__file__).parents[2] / "hub_cards" / "rendered" / "depth-encoder.md"
RESULTS = {
    "teacher": {"layers": 6, "parameters": 22713216, "cosine": 1.0, "spearman": 1.0, "latency_ratio": 1.0},
    "cut": {"layers": 3, "parameters": 17389824, "cosine": 0.56, "spearman": 0.54, "latency_ratio": 0.51},
    "healed": {"layers": 3, "parameters": 17389824, "cosine": 0.951, "spearman": 0.921, "latency_ratio": 0.51},
    "base_model": "sentence-transformers/all-MiniLM-L6-v2",
    "license": "apache-2.0",
    "language": "en",
    "evaluated_on": "500 held-out Debian package descriptions",
    "trained_on": "12,000 Debian package descriptions",
    "command": "hf-depth demo --out demo --seed 0",
}


def build(model_class: type = DepthEncoderModel) -> DepthEncoderModel:
    return resize(model_class(DepthEncoderConfig(**{**TINY, "num_hidden_layers": 6})), plan="0,3,5")


def test_metadata_is_valid_and_holds_the_measured_numbers() -> None:
    data = ModelCard(str(model_card(build(), RESULTS))).data
    assert data.library_name == "transformers"
    assert data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert data.pipeline_tag == "feature-extraction"
    assert {result.metric_type: result.metric_value for result in data.eval_results} == {
        "cosine": 0.951,
        "spearman": 0.921,
    }


def test_the_task_is_that_of_the_head() -> None:
    assert model_card(build(DepthEncoderForMaskedLM)).data.pipeline_tag == "fill-mask"


def test_the_plan_is_a_table() -> None:
    text = model_card(build(), RESULTS).text
    assert all(row in text for row in ("| layers | 0 | 0 |", "| layers | 1 | 3 |", "| layers | 2 | 5 |"))


def test_a_card_without_measurements_says_so() -> None:
    card = model_card(build())
    assert "Nothing was measured" in card.text
    assert card.data.eval_results is None


def test_the_rendered_card_is_the_one_in_the_project() -> None:
    versions = str(model_card(build(), RESULTS)).splitlines()[-1]
    rendered = str(model_card(build(), RESULTS)).replace(versions, "Made with hf-depth.")
    assert rendered == RENDERED.read_text(encoding="utf-8")


def test_text_from_outside_is_shown_and_not_read() -> None:
    hostile = {
        **RESULTS,
        "title": "<script>alert(1)</script> | [x](javascript:1)\n# heading",
        "evaluated_on": "a\n---\nlicense: mit\n---\n<img src=x onerror=1>",
        "command": "echo hi\n```\n<b>out of the block</b>",
        "base_model": "me/model",
    }
    card = model_card(build(), hostile)
    assert "<script>" not in card.text
    assert "<img" not in card.text
    assert "[x](" not in card.text
    assert "\n# heading" not in card.text
    assert card.text.count("\n````bash\n") == 1
    assert card.data.license == "apache-2.0"
    assert yaml.safe_load(str(card).split("---\n")[1])["license"] == "apache-2.0"


@given(st.text(max_size=60))
def test_escaped_text_stays_on_one_line_and_opens_no_html(text: str) -> None:
    escaped = escape_markdown(text)
    assert len(escaped.splitlines()) <= 1
    assert "<" not in escaped
    assert "|" not in escaped.replace("\\|", "")


@given(st.text(alphabet="`ab\n", max_size=30))
def test_nothing_in_a_fence_closes_it(text: str) -> None:
    lines = fence(text).split("\n")
    assert not any(line.strip().startswith(lines[-1]) for line in lines[1:-1])


def test_a_result_without_a_number_is_refused_by_name() -> None:
    with pytest.raises(DepthError, match=r"healed.*spearman"):
        model_card(build(), {"healed": {"layers": 3, "parameters": 1, "cosine": 0.9, "latency_ratio": 0.5}})
