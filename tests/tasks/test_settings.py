from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bmtools.recipes.settings import OptimizationConfig
from bmtools.tasks.settings import FinetuneConfig, FinetunePlan, NerConfig


@pytest.mark.parametrize(("settings", "message"), [
    ({"scheme": "iob"}, "scheme: found iob, expected bio or bioul or bilou or iobes or io"),
    ({"types": "A,,B"}, "types: found 'A,,B', expected different names"),
    ({"types": "A, A"}, "types: found 'A, A', expected different names"),
    ({"head_layers": 0}, "head_layers: found 0"), ({"head_size": 33}, "an even number"),
    ({"head_dropout": 1.0}, "head_dropout: found 1.0, expected 0 to below 1"),
    ({"crf": True, "loss": "dice"}, "loss: found dice, expected cross-entropy beside crf"),
    ({"crf": True, "class_weights": "balanced"}, "class_weights: found balanced, expected none"),
    ({"crf": True, "label_pieces": "all"}, "label_pieces: found all, expected first beside crf"),
    ], ids=str)
def test_settings_of_tagging_that_do_not_fit_are_refused(settings: dict[str, Any],
                                                         message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NerConfig(**settings)


def test_types_are_listed() -> None:
    assert NerConfig(types="Chemical, Disease").chosen_types == ["Chemical", "Disease"]
    assert NerConfig().chosen_types == []


@pytest.mark.parametrize(("settings", "message"), [
    ({"seed_list": "1,x"}, "seed_list: found '1,x', expected different whole numbers up to 42949"),
    ({"seed_list": "1,,2"}, "seed_list: found '1,,2', expected different whole numbers"),
    ({"seed_list": "4294967296"}, "seed_list: found '4294967296', expected"),
    ({"seed_list": "9" * 5000}, f"seed_list: found '{'9' * 60}', expected"),
    ({"seed_list": "3,3"}, "seed_list: found '3,3', expected different whole")], ids=range(5))
def test_absurd_seeds_are_refused_in_a_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as found:
        FinetuneConfig(**settings)
    assert len(str(found.value)) < 160


def test_seeds_end_where_libraries_take_no_more() -> None:
    last = OptimizationConfig(seed=2**32 - 3)
    paths = ("ner", NerConfig(), Path("model"), Path("out"))
    FinetunePlan(*paths, FinetuneConfig(seeds=3), last)
    FinetunePlan(*paths, FinetuneConfig(seeds=5, seed_list="7"), last)
    with pytest.raises(ValueError, match="seed: found 4294967293, expected 4294967292 at most"):
        FinetunePlan(*paths, FinetuneConfig(seeds=4), last)
