"""Closing lines of commands."""

from __future__ import annotations

import pytest

from bmtools.cli.scoring_options import scoring_closing
from bmtools.commands import compare_vocab, finetune, score_suite, training_options

SCORES = [{"model": "base", "pppl": 256.4, "interval": [245.7, 266.4], "sentences": 1090,
           "vocabulary": "a"},
          {"model": "bio", "pppl": 300.1, "interval": [290.0, 310.0], "sentences": 1090,
           "vocabulary": "b"},
          {"compared": ["base", "bio"], "metric": "bits_per_character"}]
TRAINED = {"checkpoint": "my model", "steps": 1200, "tokens_seen": 889000,
           "last": {"loss": 3.588}}


@pytest.mark.parametrize(("found", "expected"), [
    (compare_vocab.closing([
        {"scope": "text", "vocabulary": "base", "words": 9, "pieces_per_word": 2.161},
        {"scope": "text", "vocabulary": "bio", "words": 9, "pieces_per_word": 1.339},
        {"scope": "overlap", "vocabulary": "base", "other": "bio"}]),
     "pieces per word (text): 1.34 with bio, the fewest of 2"),
    (compare_vocab.closing([
        {"scope": "text", "vocabulary": name, "words": 9, "pieces_per_word": 2.161}
        for name in ("base", "bio")]), "pieces per word (text): 2.16 with base and bio"),
    (training_options.training_closing({**TRAINED, "evaluate": {"evaluate": {"loss": 4.0}}}),
     "wrote my model: held-out loss 4.00 after 1,200 steps and 889,000 tokens"),
    (finetune.closing({"checkpoint": "t", "seeds": 2, "dev_f1": {"mean": 0.7, "deviation": 0.02},
                       "test_f1": {"mean": 0.464, "deviation": 0.0547}}),
     "wrote t: test f1 46.4 ± 5.47% (mean and deviation of 2 seeds)"),
    (score_suite.closing(
        [{"model": "a", "missing": list("BCDEFG"), "averages": {"Mean": 81.25, "All": 80.0}},
         {"model": "b"}, {"model": "c", "table": "Table 2"}], 9),
     "a has 3 of 9 sets, All 80.00; b has 9 of 9 sets"),
    (scoring_closing(SCORES[:1], "pppl", "sentences"),
     "base has pppl 256 [246, 266] over 1,090 sentences"),
    # Token counts with different vocabularies cannot be compared.
    (scoring_closing(SCORES, "pppl", "sentences"), "scored 2 checkpoints"),
    (scoring_closing([{"model": "a", "mrr": 0.1, "maskings": 9, "interval": [0.0, 0.2]},
                      {"model": "b", "mrr": 0.3, "maskings": 9, "interval": [0.2, 0.4]}],
                     "mrr", "maskings", lowest=False),
     "b has the highest of 2, mrr 0.300 [0.200, 0.400] over 9 maskings"),
    (scoring_closing([{"model": name, "f1": f1, "records": 9} for name, f1 in
                      (("a", 0.5), ("b", 0.5), ("c", 0.4))], "f1", "records", lowest=False),
     "a and b are equal with the highest of 3, f1 50.0% over 9 records"),
    # Words that one model skips may not be skipped by the other.
    (scoring_closing([{"model": "a", "mrr": 0.1, "maskings": 9, "data": "x"},
                      {"model": "b", "mrr": 0.3, "maskings": 9, "data": "y"}],
                     "mrr", "maskings", lowest=False), "scored 2 checkpoints"),
])
def test_each_command_has_its_closing_line(found: str, expected: str) -> None:
    assert found == expected
