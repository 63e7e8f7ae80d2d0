"""Plans say where layers come from, in every form the same, and refuse what is no plan."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_depth import DepthError, DepthPlan

SOURCES = st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=12)
NAMES = st.text(st.characters(exclude_characters=";=", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name == name.strip()
)
PLANS = st.builds(DepthPlan.keep, SOURCES | st.dictionaries(NAMES, SOURCES, min_size=1, max_size=3))


@given(PLANS)
def test_text_and_json_give_the_plan_back(plan: DepthPlan) -> None:
    assert DepthPlan.parse(str(plan)) == plan
    assert DepthPlan.from_json(plan.to_json()) == plan
    assert eval(repr(plan)) == plan
    assert hash(DepthPlan.parse(str(plan))) == hash(plan)


def test_plans_compare_by_what_they_say_in_any_order_of_stacks() -> None:
    plan = DepthPlan.keep({"encoder": [0, 1], "decoder": [None]})
    sorted_by_a_config = DepthPlan.from_json(json.dumps(plan.to_dict(), sort_keys=True))
    assert sorted_by_a_config == plan
    assert hash(sorted_by_a_config) == hash(plan)
    assert plan != DepthPlan.keep({"encoder": [0, 1], "decoder": [0]})
    assert plan != plan.to_dict()


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("0-3,8-11", [0, 1, 2, 3, 8, 9, 10, 11]),
        ("0,1,+,2", [0, 1, None, 2]),
        (" 5 , 0 - 1 ", [5, 0, 1]),
        ("3,3", [3, 3]),
        ("+", [None]),
    ],
)
def test_text_is_read(text: str, layers: list[int | None]) -> None:
    assert DepthPlan.parse(text) == DepthPlan.keep(layers)


def test_text_names_several_stacks() -> None:
    assert DepthPlan.parse("encoder=0-2; decoder=0,+") == DepthPlan.keep({"encoder": [0, 1, 2], "decoder": [0, None]})


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a", "1,,2", "5-2", "-1", "1.5", "0-", "=1", "a=1;a=2", "1;2", "encoder=", "٣"),
        *("0-3000000000", "9" * 5000, "1;a=2", "a=1;", None, 5, [0]),
    ],
    ids=lambda text: repr(text)[:20],
)
def test_text_that_is_no_plan_is_refused(text: object) -> None:
    with pytest.raises(DepthError):
        DepthPlan.parse(text)


@pytest.mark.parametrize(
    "layers",
    [
        [],
        {},
        {"encoder": []},
        [-1],
        [True],
        [1.0],
        ["1"],
        "12",
        {"a;b": [0]},
        {3: [0]},
        5,
        {"": [0], "a": [0]},
        [10**6],
    ],
)
def test_what_is_no_plan_is_refused(layers: object) -> None:
    with pytest.raises(DepthError):
        DepthPlan.keep(layers)


@pytest.mark.parametrize("stacks", [[0, 2], (0, 2), (), (("a", (-1,)),), (("a", (0,)), ("a", (1,))), {"a": [0]}])
def test_a_plan_made_without_a_maker_is_checked_too(stacks: object) -> None:
    with pytest.raises(DepthError):
        DepthPlan(stacks)


@pytest.mark.parametrize("data", [None, [], {}, {"stacks": []}, {"stacks": {"a": [0]}, "layers": 3}])
def test_a_saved_plan_of_another_form_is_refused(data: object) -> None:
    with pytest.raises(DepthError, match="saved as"):
        DepthPlan.from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[0,", 5, None])
def test_what_is_no_json_is_refused(text: object) -> None:
    with pytest.raises(DepthError, match="no JSON"):
        DepthPlan.from_json(text)


@pytest.mark.parametrize(
    ("strategy", "source", "target", "layers"),
    [
        ("even", 12, 6, [0, 2, 4, 6, 8, 10]),
        ("even", 6, 3, [0, 2, 4]),
        ("spread", 12, 3, [0, 6, 11]),
        ("spread", 12, 6, [0, 2, 4, 7, 9, 11]),
        ("spread", 6, 3, [0, 3, 5]),
        ("spread", 6, 1, [5]),
        ("first", 6, 2, [0, 1]),
        ("last", 6, 2, [4, 5]),
    ],
)
def test_strategies_choose(strategy: str, source: int, target: int, layers: list[int]) -> None:
    assert getattr(DepthPlan, strategy)(source, target) == DepthPlan.keep(layers)


@given(st.sampled_from(sorted(DepthPlan.STRATEGIES)), st.integers(1, 60), st.integers(1, 60))
def test_strategies_give_distinct_layers_in_order(strategy: str, one: int, other: int) -> None:
    source, target = max(one, other), min(one, other)
    chosen = DepthPlan.STRATEGIES[strategy](source, target)
    assert len(chosen) == target
    assert list(chosen) == sorted(set(chosen))
    assert chosen[0] >= 0 and chosen[-1] < source
    if target == source:
        assert list(chosen) == list(range(source))


@pytest.mark.parametrize(("source", "target"), [(6, 0), (6, -1), (6, 7), (0, 1), (6, True), (6, 2.0)])
def test_depths_that_cannot_be_chosen_are_refused(source: int, target: int) -> None:
    with pytest.raises(DepthError):
        DepthPlan.even(source, target)


def test_the_layer_map_leaves_fresh_layers_out() -> None:
    assert DepthPlan.keep([0, None, 5]).layer_map() == {0: 0, 2: 5}
    plan = DepthPlan.keep({"encoder": [1], "decoder": [None, 2]})
    assert plan.layer_map("decoder") == {1: 2}
    with pytest.raises(DepthError, match="encoder, decoder"):
        plan.layer_map()
    with pytest.raises(DepthError, match="nothing"):
        plan.layer_map("nothing")


def test_resolving_names_the_only_stack_and_keeps_the_others_whole() -> None:
    assert DepthPlan.keep([0, 2]).resolve({"layers": 3}) == DepthPlan.keep({"layers": [0, 2]})
    plan = DepthPlan.keep({"decoder": [0]}).resolve({"encoder": 2, "decoder": 2})
    assert plan == DepthPlan.keep({"encoder": [0, 1], "decoder": [0]})


@pytest.mark.parametrize(
    ("plan", "depths", "message"),
    [
        (DepthPlan.keep([0, 6]), {"layers": 6}, r"Layer 6.*'layers' has 6 layers \(0-5\)"),
        (DepthPlan.keep({"decoder": [0]}), {"layers": 6}, r"no stack 'decoder'.*layers"),
        (DepthPlan.keep([0]), {}, "no stack of layers"),
        (DepthPlan.keep([0]), {"encoder": 2, "decoder": 2}, r"encoder, decoder.*encoder=0"),
    ],
)
def test_a_plan_that_does_not_fit_a_model_is_refused(plan: DepthPlan, depths: dict, message: str) -> None:
    with pytest.raises(DepthError, match=message):
        plan.resolve(depths)


def test_a_plan_cannot_be_changed() -> None:
    plan = DepthPlan.keep([0])
    with pytest.raises(TypeError):
        plan.stacks["layers"] = (1,)
    with pytest.raises(AttributeError):
        plan._stacks = ()
    assert copy.deepcopy(plan) == plan
