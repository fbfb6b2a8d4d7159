"""Sentences that end commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.cli import scoring_options
from bmtools.cli.results import Closing
from bmtools.commands import compare_vocab, finetune, score_suite, training_options
from bmtools.commands.import_ import importing

SCORES = [{"model": "base", "pppl": 256.4, "interval": [245.7, 266.4], "sentences": 1090,
           "bits_per_character": 1.2, "vocabulary": "a"},
          {"model": "bio", "pppl": 300.1, "interval": [290.0, 310.0], "sentences": 1090,
           "bits_per_character": 1.1, "vocabulary": "b"},
          {"compared": ["base", "bio"], "metric": "bits_per_character"}]
TRAINED = {"checkpoint": "my model", "steps": 1200, "tokens_seen": 889000,
           "last": {"loss": 3.588}}


@pytest.mark.parametrize(("found", "expected"), [
    (importing.closing(2, {}, "-"), ("2 records", "")),
    (importing.closing(2, {}, "/dev/null"), ("2 records to /dev/null", "")),
    (importing.closing(1200, {"titles": 3, "others": 0}, "my notes.jsonl"),
     ("1,200 records to my notes.jsonl; titles: 3",
      "bmtools build-vocab 'my notes.jsonl' -o vocabulary")),
    (importing.closing(2, {}, "out/gad.jsonl", "classification"),
     ("2 records to out/gad.jsonl", "bmtools split out/gad.jsonl -o parts")),
    (importing.closing(2, {}, "train.jsonl", "qa"),
     ("2 records to train.jsonl",
      "bmtools finetune qa --model CKPT --train train.jsonl --dev FILE -o model")),
    (importing.closing(2, {}, "m.jsonl", "mrr"),
     ("2 records to m.jsonl", "bmtools score-mrr m.jsonl --model CKPT")),
    (compare_vocab.closing([
        {"scope": "text", "vocabulary": "base", "words": 9, "pieces_per_word": 2.161},
        {"scope": "text", "vocabulary": "bio", "words": 9, "pieces_per_word": 1.339},
        {"scope": "overlap", "vocabulary": "base", "other": "bio"}],
        {"base": "nowhere", "bio": Path(__file__).parent}),
     ("bio takes the fewest of 2, 1.34 pieces a word (text)",
      f"bmtools pretrain FILE --architecture bert-small --tokenizer {Path(__file__).parent} "
      "-o model")),
    (training_options.training_closing(TRAINED),
     ("wrote my model: loss 3.59 after 1,200 steps and 889,000 tokens",
      "bmtools score-pppl FILE --model 'my model'")),
    (training_options.training_closing({**TRAINED, "evaluate": {"evaluate": {"loss": 4.0}}}),
     ("wrote my model: held-out loss 4.00 after 1,200 steps and 889,000 tokens",
      "bmtools score-pppl FILE --model 'my model'")),
    (finetune.closing({"checkpoint": "t", "seeds": 2,
                             "dev_f1": {"mean": 0.7, "deviation": 0.02},
                             "test_f1": {"mean": 0.464, "deviation": 0.0547}}),
     ("wrote t: test f1 46.4 ± 5.47% (mean and deviation of 2 seeds)",
      "bmtools predict FILE --model t")),
    (finetune.closing({"checkpoint": "t", "seeds": 1,
                             "dev_accuracy": {"mean": 0.7, "deviation": None}}),
     ("wrote t: dev accuracy 70.0% (one seed)", "bmtools predict FILE --model t")),
    (score_suite.closing(
        [{"model": "a", "missing": list("BCDEFG"), "averages": {"Mean": 81.25, "All": 80.0}},
         {"model": "b"}, {"model": "c", "table": "Table 2"}], 9, "s.jsonl"),
     ("a has 3 of 9 sets (missing: B, C, D, E, F and 1 more), All 80.00; b has 9 of 9 sets",
      "bmtools table s.jsonl")),
    (scoring_options.scoring_closing(SCORES[:1], "pppl", "sentences", "s.jsonl"),
     ("base has pppl 256 [246, 266] over 1,090 sentences", "bmtools table s.jsonl")),
    # Tokens of two vocabularies do not compare, so bits per character decide.
    (scoring_options.scoring_closing(SCORES, "pppl", "sentences", "-"),
     ("bio has the lowest of 2, bits/char 1.10, pppl 300 [290, 310] over 1,090 sentences", "")),
    (scoring_options.scoring_closing([{**SCORES[0], "signature": "pppl:original|case:kept"},
                                  {**SCORES[1], "signature": "pppl:original|case:folded"}],
                                 "pppl", "sentences", "-"),
     ("scored 2 checkpoints that have no measure in common", "")),
    (scoring_options.scoring_closing([{"model": "a", "perplexity": 3.0, "vocabulary": "a"},
                                  {"model": "b", "perplexity": 4.0, "vocabulary": "b"}],
                                 "perplexity", "masked_tokens", "-"),
     ("scored 2 checkpoints that have no measure in common", "")),
    (scoring_options.scoring_closing(
        [{"model": "a", "mrr": 0.1, "maskings": 9, "interval": [0.0, 0.2]},
         {"model": "b", "mrr": 0.3, "maskings": 9, "interval": [0.2, 0.4]}],
        "mrr", "maskings", "-", lowest=False),
     ("b has the highest of 2, mrr 0.300 [0.200, 0.400] over 9 maskings", "")),
    # Words that one model skips are not the other's: the lines do not compare.
    (scoring_options.scoring_closing([{"model": "a", "mrr": 0.1, "maskings": 9, "data": "x"},
                                  {"model": "b", "mrr": 0.3, "maskings": 9, "data": "y"}],
                                 "mrr", "maskings", "m.jsonl", lowest=False),
     ("scored 2 models, each on other maskings; their comparisons are over those that both count",
      "bmtools table m.jsonl")),
])
def test_each_command_ends_with_its_own(found: Closing, expected: Closing) -> None:
    assert found == expected
