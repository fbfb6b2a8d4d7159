"""Errors and the spelling of settings in them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from bmtools.errors import (
    BmtoolsError,
    CheckpointError,
    RecordError,
    check_choices,
    choices,
    count_of,
    did_you_mean,
    require,
    setting,
    settings_spelled_as_flags,
    suggestion,
)
from bmtools.io.failures import WriteError


@pytest.mark.parametrize("error", [
    BmtoolsError("no"), CheckpointError("model: no"), WriteError("full"),
    RecordError("a.jsonl:3", "key 'id' is missing", {"text": "x"})])
def test_errors_cross_to_other_processes(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_settings_are_spelled_as_their_user_writes_them() -> None:
    assert setting("max_length") == "max_length"
    with settings_spelled_as_flags(), \
            pytest.raises(ValueError, match=r"^--max-length: found 3, expected 8 or more$"):
        require(False, "max_length", 3, "8 or more")
    assert setting("max_length") == "max_length"


Size = Literal["", "small", "large"]


@dataclass(frozen=True)
class Shirt:
    size: Size = ""
    color: Literal["red", "blue"] | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        check_choices(self)


@pytest.mark.parametrize(("values", "message"), [
    ({"size": "huge"}, "size: found huge, expected '' or small or large"),
    ({"size": None}, "size: found None, expected '' or small or large"),
    ({"color": ""}, "color: found '', expected red or blue or None")])
def test_a_literal_field_takes_its_choices_only(values: dict[str, Any], message: str) -> None:
    assert Shirt(size="large", color="red").color == "red"
    with pytest.raises(ValueError) as error:
        Shirt(**values)
    assert str(error.value) == message


@pytest.mark.parametrize(("annotation", "listed"), [
    (Size, ("", "small", "large")), (Literal["a"] | None, ("a", None)), (str, ()),
    (int | None, ()), (tuple[str, ...], ())])
def test_choices_of_a_type(annotation: Any, listed: tuple[str | None, ...]) -> None:
    assert choices(annotation) == listed


@pytest.mark.parametrize(("found", "known", "meant"), [
    ("AdamW", ["adamw", "muon"], "did you mean 'adamw'?"),
    ("mask_rat", ["mask_rate", "mask_curve"], "did you mean 'mask_rate'?"),
    ("score", ["score-a", "score-b", "table"], "did you mean 'score-a' or 'score-b'?"),
    ("pubmed", ["import", "import pubmed"], "did you mean 'import pubmed'?"),
    ("zzz", ["import", "table"], "")])
def test_the_name_that_was_meant(found: str, known: list[str], meant: str) -> None:
    assert did_you_mean(found, known) == meant
    assert suggestion(found, known) == (meant or "expected one of import, table")


def test_a_mistyped_choice_is_answered_with_the_one_meant() -> None:
    with pytest.raises(ValueError, match=r"expected '' or small or large; did you mean 'large'\?$"):
        Shirt(size="lagre")  # type: ignore[arg-type]


@pytest.mark.parametrize(("counted", "one"), [
    ("records", "record"), ("vocabularies", "vocabulary"), ("corpora", "corpus"),
    ("passes", "pass"), ("batches", "batch"), ("sizes", "size"), ("masked copies", "masked copy"),
    ("GPUs", "GPU"), ("contents", "content"),
    ("unknown words (3%), in other texts", "unknown word (3%), in other texts"),
    ("previous processes", "previous process"), ("of them without a fault then",) * 2, ("", "")])
def test_one_is_not_many(counted: str, one: str) -> None:
    assert count_of(1, counted) == f"1 {one}"
    assert count_of(0, counted) == f"0 {counted}"
    assert count_of(1200, counted) == f"1,200 {counted}"
