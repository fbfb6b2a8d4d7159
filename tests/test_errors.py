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
    check_values,
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
def test_errors_can_be_pickled(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_settings_are_spelled_as_the_user_writes_them() -> None:
    assert setting("max_length") == "max_length"
    with settings_spelled_as_flags(), \
            pytest.raises(ValueError, match=r"^--max-length: found 3, expected 8 or more$"):
        require(False, "max_length", 3, "8 or more")
    assert (setting("max_length"), setting("max_length", 8)) == ("max_length", "max_length 8")
    with settings_spelled_as_flags({"max_length"}):
        assert setting("max_length", 8) == "--max-length 8"
        assert (setting("scheme"), setting("scheme", "io")) == ("--set scheme", "--set scheme=io")


Size = Literal["", "small", "large"]


@dataclass(frozen=True)
class Shirt:
    size: Size = ""
    color: Literal["red", "blue"] | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        check_values(self)


@pytest.mark.parametrize(("values", "message"), [
    ({"size": "huge"}, "size: found huge, expected '' or small or large"),
    ({"size": None}, "size: found None, expected '' or small or large"),
    ({"color": ""}, "color: found '', expected red or blue or None")])
def test_a_literal_field_accepts_only_its_choices(values: dict[str, Any], message: str) -> None:
    assert Shirt(size="large", color="red").color == "red"
    with pytest.raises(ValueError) as error:
        Shirt(**values)
    assert str(error.value) == message


@pytest.mark.parametrize(("found", "known", "meant"), [
    ("AdamW", ["adamw", "muon"], "did you mean 'adamw'?"),
    ("mask_rat", ["mask_rate", "mask_curve"], "did you mean 'mask_rate'?"),
    ("score", ["score-a", "score-b", "table"], "did you mean 'score-a' or 'score-b'?"),
    ("pubmed", ["import", "import pubmed"], "did you mean 'import pubmed'?"),
    ("zzz", ["import", "table"], "")])
def test_a_similar_name_is_suggested(found: str, known: list[str], meant: str) -> None:
    assert did_you_mean(found, known) == meant
    assert suggestion(found, known) == (meant or "expected one of import, table")
