from __future__ import annotations

from typing import Any

import pytest

from bmtools.tasks.settings import NerConfig


@pytest.mark.parametrize(("settings", "message"), [
    ({"scheme": "iob"}, "scheme: found iob, expected bio or bioul or bilou or iobes or io"),
    ({"types": "A,,B"}, "types: found 'A,,B', expected different names"),
    ({"types": "A, A"}, "types: found 'A, A', expected different names"),
    ({"head_layers": 0}, "head_layers: found 0"), ({"head_size": 33}, "an even number"),
    ({"head_dropout": 1.0}, "head_dropout: found 1.0, expected 0 to below 1"),
    ({"crf": True, "loss": "dice"}, "loss: found dice, expected cross-entropy beside crf"),
    ({"crf": True, "class_weights": "balanced"}, "class_weights: found balanced, expected none"),
    ({"crf": True, "label_pieces": "all"}, "label_pieces: found all, expected first beside crf"),
    ({"crf": True, "protocol": "biobit"}, "protocol: found biobit, expected strict beside crf"),
    ({"protocol": "biobit", "scheme": "io"}, "protocol: found biobit, expected strict beside"),
    ({"protocol": "biobit", "overlapping": True}, "protocol: found biobit, expected strict")],
    ids=str)
def test_settings_of_tagging_that_do_not_fit_are_refused(settings: dict[str, Any],
                                                         message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NerConfig(**settings)


def test_types_are_listed() -> None:
    assert NerConfig(types="Chemical, Disease").chosen_types == ["Chemical", "Disease"]
    assert NerConfig().chosen_types == []
