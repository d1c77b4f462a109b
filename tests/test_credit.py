"""Parts of a completion are compared with the same part of the group's other completions."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from evenhand.credit import Parts, checked_spans, part_advantages, token_parts
from evenhand.errors import TaskError
from evenhand.models import resolve
from evenhand.rewards import group_advantages
from evenhand.tasks import Span
from evenhand.tasks.stepwise_parity import TASK

COLUMNS = {"numbers": [2, 3, 2, 5, 7, 8, 9, 1, 4, 6], "answer": 5, "task_version": TASK.version}
WEIGHTS = {"item": 1.0, "answer": 1.0, "consistency": 0.5}
GOLD = TASK.gold(COLUMNS)
REWARDS = st.lists(st.sampled_from([0.0, 0.4, 1.0, 2.5]), min_size=8, max_size=8)


def names_of_characters(text):
    return [span.name for span in TASK.spans(COLUMNS, text) for _ in range(span.start, span.end)]


def test_the_lines_of_gold_are_ten_items_and_an_answer():
    spans = TASK.spans(COLUMNS, GOLD)
    assert [span.name for span in spans] == [*(f"line {i}" for i in range(1, 11)), "answer"]
    assert GOLD[spans[1].start : spans[1].end] == "3: odd\n", "a line break belongs to the line that it ends"
    values = Parts.of(spans, WEIGHTS).values
    assert values == {**{f"line {i}": 1.0 for i in range(1, 11)}, "answer": 1.5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOLD.replace("3: odd", "3: even"), {"line 2": 0.0, "answer": 1.0}),
        (GOLD.replace("Answer: 5", "Answer: 4"), {"line 2": 1.0, "answer": 0.0}),
        ("Sure:\n" + GOLD, {"line 1": 0.0, "line 2": 0.0, "answer": 1.0}),
        (GOLD.replace("Answer: 5", "5: odd\nAnswer: 5"), {"line 10": 1.0, "answer": 1.0}),
        (f"{GOLD}\nAnswer: 5", {"line 10": 1.0}),
        ("", {}),
    ],
)
def test_a_part_is_worth_what_it_earns_by_itself(text, expected):
    values = Parts.of(TASK.spans(COLUMNS, text), WEIGHTS).values
    assert {name: values[name] for name in expected} == expected
    assert ("answer" in values) == ("answer" in expected)


def test_weights_of_the_run_are_the_weights_of_parts():
    values = Parts.of(TASK.spans(COLUMNS, GOLD), {"item": 2.0, "answer": 0.0, "consistency": 0.5}).values
    assert values["line 1"] == 2.0
    assert values["answer"] == 0.5


@given(st.text(alphabet="12: evnod\nAswr", max_size=80))
def test_spans_of_any_text_cover_it(text):
    checked_spans(TASK.spans(COLUMNS, text), text, TASK.name)


@pytest.mark.parametrize(
    ("spans", "what"),
    [
        ([Span(0, 2, "a", {}), Span(3, 5, "b", {})], "leaves a gap after character 2"),
        ([Span(0, 3, "a", {}), Span(2, 5, "b", {})], "overlaps what ends at character 3"),
        ([Span(0, 9, "a", {})], "ends past the text's 5 characters"),
        ([Span(0, 3, "a", {})], "the spans end at character 3 of 5"),
        ([Span(0, 0, "a", {}), Span(0, 5, "b", {})], "is empty"),
        ([Span(0, 3, "a", {}), Span(3, 5, "a", {})], "bears a name that an earlier span has"),
        ([], "the spans end at character 0 of 5"),
        ([Span(0, 5, "a", {"item": float("nan")})], "earns what is no finite number"),
    ],
)
def test_spans_that_do_not_cover_their_text_are_refused_in_one_sentence(spans, what):
    with pytest.raises(TaskError, match=what) as caught:
        checked_spans(spans, "1: od", "mine")
    assert "Task mine" in str(caught.value)
    assert "credit = 'completion'" in caught.value.remedy


def test_a_span_that_decides_a_foreign_reward_is_refused(monkeypatch):
    monkeypatch.setattr(type(TASK), "spans", lambda *_: [Span(0, 3, "a", {"item": 1.0, "style": 1.0})])
    with pytest.raises(TaskError, match="the span a decides style, which is no reward of it"):
        Parts.read(TASK, COLUMNS, "1: ", WEIGHTS)


def test_spans_that_fail_or_are_none_for_one_text_are_refused(monkeypatch):
    monkeypatch.setattr(type(TASK), "spans", lambda *_: {}["line 1"])
    with pytest.raises(TaskError, match=r"Task stepwise-parity: spans\(\) raised KeyError: 'line 1', in '1: '"):
        Parts.read(TASK, COLUMNS, "1: ", WEIGHTS)
    monkeypatch.setattr(type(TASK), "spans", lambda *_: None)
    with pytest.raises(TaskError, match=r"spans\(\) gave None"):
        Parts.read(TASK, COLUMNS, "1: ", WEIGHTS)


def test_parts_stand_behind_what_a_parser_took_away():
    parts = Parts.read(TASK, COLUMNS, GOLD, WEIGHTS)
    assert parts.behind(0) is parts
    moved = parts.behind(4)
    checked_spans(moved.spans, "1234" + GOLD, TASK.name)
    assert [span.name for span in moved.spans] == [None, *(span.name for span in parts.spans)]
    assert moved.values == parts.values


@given(rewards=REWARDS, scale=st.sampled_from(["group", "batch", "none"]))
def test_parts_of_equal_worth_have_the_completions_advantage(rewards, scale):
    values = [{"line 1": reward, "line 2": reward, "answer": reward} for reward in rewards]
    expected = group_advantages(rewards, 4, scale)
    for found, advantage in zip(part_advantages(values, 4, scale), expected, strict=True):
        assert found == pytest.approx(dict.fromkeys(found, advantage))


def test_a_part_that_all_get_right_carries_nothing_and_a_missing_one_counts_as_zero():
    values = [{"line 1": 1.0, "answer": 1.5}, {"line 1": 1.0, "answer": 0.0}, {"line 1": 1.0}, {"line 1": 1.0}]
    found = part_advantages(values, 4)
    assert [part["line 1"] for part in found] == [0.0] * 4
    assert found[0]["answer"] == pytest.approx(group_advantages([1.5, 0.0, 0.0, 0.0], 4)[0])
    assert "answer" not in found[2]


def test_groups_are_compared_only_with_themselves():
    one = [{"a": 1.0}, {"a": 0.0}]
    assert part_advantages([*one, {"a": 5.0}, {"b": 1.0}], 2)[:2] == part_advantages(one, 2)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(resolve("embedded"))


def decoder(tokenizer):
    return lambda ids: tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("end", [True, False], ids=["ended", "cut off"])
def test_a_token_belongs_to_the_line_of_its_first_character(tokenizer, end):
    ids = tokenizer(GOLD, add_special_tokens=False)["input_ids"]
    names = token_parts(TASK.spans(COLUMNS, GOLD), [*ids, tokenizer.eos_token_id] if end else ids, decoder(tokenizer))
    expected, written = names_of_characters(GOLD), 0
    for count, name in enumerate(names[: len(ids)], start=1):
        assert name == expected[written]
        written = len(tokenizer.decode(ids[:count]))
    assert not end or names[-1] == "answer"


@given(st.lists(st.sampled_from(["1: odd", "4: even", "é", "日本", "🙂", "Answer: 3"]), min_size=1, max_size=6))
def test_characters_of_several_tokens_do_not_move_the_borders(lines):
    tokenizer = AutoTokenizer.from_pretrained(resolve("embedded"))
    text = "\n".join(lines)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if tokenizer.decode(ids, skip_special_tokens=True) != text:
        return  # a character that this small tokenizer does not know
    names = token_parts(TASK.spans(COLUMNS, text), ids, decoder(tokenizer))
    for span in TASK.spans(COLUMNS, text):
        own = [token for token, name in zip(ids, names, strict=True) if name == span.name]
        if span.name is not None:
            assert tokenizer.decode(own).rstrip("\n") == text[span.start : span.end].rstrip("\n")


@pytest.fixture(scope="module")
def bytewise():
    """A tokenizer of which every token is one byte, so that most characters take several."""
    alphabet = sorted(ByteLevel.alphabet())
    model = Tokenizer(BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    model.pre_tokenizer = ByteLevel(add_prefix_space=False)
    model.decoder = ByteLevelDecoder()
    return PreTrainedTokenizerFast(tokenizer_object=model)


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), data=st.data())
def test_all_bytes_of_a_character_belong_to_its_span(bytewise, text, data):
    edges = sorted(data.draw(st.sets(st.integers(1, len(text)))) | {0, len(text)})
    spans = [Span(start, end, str(start), {}) for start, end in pairwise(edges)]
    names = token_parts(spans, bytewise(text)["input_ids"], decoder(bytewise))
    expected = [span.name for span in spans for _ in text[span.start : span.end].encode()]
    assert names == expected
