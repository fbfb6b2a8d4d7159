"""Words of several tokens, against an exhaustive search; masks of long texts, in windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bmtools.errors import BmtoolsError, RecordError
from bmtools.records import MASK, Record
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.mrr import mrr
from bmtools.scoring.mrr_ranking import MaskScore, score_masked_words
from bmtools.scoring.mrr_targets import TargetLookup
from bmtools.scoring.settings import MrrConfig


def score(model: Any, text: str, target: str, **settings: Any) -> MaskScore:
    record = Record(id="1", text=text, target=target)
    [one] = score_masked_words([record], [model], MrrConfig(multi_token="joint", **settings))
    return one


def exhaustive(model: CheckpointPredictor, text: str,
               target: str) -> list[tuple[float, tuple[int, int]]]:
    """Log probability of every pair of tokens behind two masks, best first."""
    tokenizer, network = model.tokenizer, model.checkpoint.model
    ids = tokenizer(text.replace(MASK, target), return_tensors="pt")["input_ids"]
    pieces = tokenizer(target, add_special_tokens=False)["input_ids"]
    position = next(start for start in range(ids.shape[1])
                 if ids[0, start:start + 2].tolist() == pieces)
    ids[0, position:position + 2] = tokenizer.mask_token_id
    with torch.no_grad():
        first = network(input_ids=ids).logits[0, position].log_softmax(0)
        copies = ids.repeat(len(first), 1)
        copies[:, position] = torch.arange(len(first))
        second = network(input_ids=copies).logits[:, position + 1].log_softmax(1)
    table = (first[:, None] + second).tolist()
    return sorted(((value, (one, other)) for one, row in enumerate(table)
                   for other, value in enumerate(row)), key=lambda found: (-found[0], found[1]))


def word_of_two(model: CheckpointPredictor) -> str:
    """A word that the vocabulary has in two pieces."""
    for word in ("malattia", "paziente", "cervello", "pressione", "dopamina", "cronica", "sonno"):
        if len(model.tokenizer(word, add_special_tokens=False)["input_ids"]) == 2:
            return word
    raise AssertionError("no word of two tokens")


def test_a_beam_as_wide_as_the_vocabulary_finds_what_an_exhaustive_search_finds(
        wordpiece: CheckpointPredictor) -> None:
    word = word_of_two(wordpiece)
    text = f"Il {MASK} riduce la nausea."
    everything = exhaustive(wordpiece, text, word)
    pieces = tuple(wordpiece.tokenizer(word, add_special_tokens=False)["input_ids"])
    rank = [ids for _, ids in everything].index(pieces) + 1
    wide = len(everything) ** 2
    found = score(wordpiece, text, word, beam_size=wide, top_k=wide)
    assert found.rank == rank
    assert found.reciprocal_rank == pytest.approx(1 / rank)
    assert found.probability == pytest.approx(math.exp(
        {ids: value for value, ids in everything}[pieces]), rel=1e-4)
    best = score(wordpiece, text, word, beam_size=200)
    assert [share for _, share in best.proposals] == pytest.approx(
        [math.exp(value) for value, _ in everything[:5]], rel=1e-4)


def test_a_word_beyond_the_beam_has_no_rank(wordpiece: CheckpointPredictor) -> None:
    word = word_of_two(wordpiece)
    text = f"Il {MASK} riduce la nausea."
    rank = score(wordpiece, text, word, beam_size=20_000, top_k=20_000).rank
    assert rank is not None
    for beam in (5, 20, 60):
        found = score(wordpiece, text, word, beam_size=beam)
        assert found.rank is None or found.rank <= min(rank, beam)
        assert found.probability > 0


def test_words_of_one_token_are_ranked_as_ever(wordpiece: CheckpointPredictor) -> None:
    record = Record(id="1", text=f"Il cuore {MASK}.", target="la")
    [usual] = score_masked_words([record], [wordpiece], MrrConfig())
    found = score(wordpiece, record["text"], "la")
    assert (found.rank, found.proposals) == (usual.rank, usual.proposals)
    assert len(usual.target.token_ids) == 1


def test_case_may_be_ignored_in_words_of_several_tokens(wordpiece: CheckpointPredictor) -> None:
    word = word_of_two(wordpiece)
    text = f"Il {MASK} riduce la nausea."
    strict = score(wordpiece, text, word, beam_size=20_000, top_k=20_000)
    caseless = score(wordpiece, text, word, beam_size=20_000, top_k=20_000, ignore_case=True)
    assert strict.rank is not None
    assert caseless.rank is not None
    assert caseless.rank <= strict.rank


SENTENCE = "La malattia di Parkinson riduce la dopamina nel cervello e il cuore batte. "


def window(model: CheckpointPredictor, text: str) -> list[int]:
    lookup = TargetLookup(model.tokenizer, ignore_case=False)
    found = lookup.find(text, "cuore", model.max_tokens).masked
    assert found.spans[0, 1] == found.spans[0, 0] + 1
    ids: list[int] = found.input_ids.tolist()
    return [*ids[:found.spans[0, 0]], -1, *ids[found.spans[0, 1]:]]


def test_a_window_is_the_whole_text_around_its_mask(any_model: CheckpointPredictor) -> None:
    """Cut from the ids of the whole text, as many on either side, but at the ends of the text."""
    longest = any_model.max_tokens
    for number in (0, 50, 99):
        sentences = [SENTENCE] * 100
        sentences[number] = SENTENCE.replace("cuore", MASK)
        whole = TargetLookup(any_model.tokenizer, False).find("".join(sentences), "cuore").masked
        ids = whole.input_ids.tolist()
        mask = int(whole.spans[0, 0])
        ids[mask] = -1
        found = window(any_model, "".join(sentences))
        assert len(found) <= longest
        assert len(found) > longest - 10  # a word of several tokens is one mask
        inner = found[1:-1]
        begin = mask - inner.index(-1)
        assert ids[begin:begin + len(inner)] == inner
        assert (found[0], found[-1]) == (ids[0], ids[-1])
        before, behind = inner.index(-1), len(inner) - inner.index(-1) - 1
        half = (len(inner) - 1) // 2
        assert before >= min(half, mask - 1)
        assert behind >= min(half, len(ids) - 2 - mask)


@pytest.mark.parametrize("policy", ["miss", "joint"])
def test_long_texts_are_scored_in_windows(any_model: CheckpointPredictor, policy: Any) -> None:
    text = SENTENCE * 30 + f"Un farmaco riduce la {MASK} arteriosa. " + SENTENCE * 30
    record = Record(id="1", text=text, target="pressione")
    [found] = score_masked_words([record], [any_model],
                                 MrrConfig(multi_token=policy, context_tokens=20))
    assert 0 < found.probability < 1 or not found.target.correct_ids
    assert len(found.target.masked.input_ids) <= any_model.max_tokens
    with pytest.raises(RecordError, match=r"score it in windows \(context_tokens 64\)"):
        list(score_masked_words([record], [any_model], MrrConfig()))
    short = Record(id="1", text=f"Un farmaco riduce la {MASK} arteriosa.", target="pressione")
    usual, same = (next(iter(score_masked_words([short], [any_model], MrrConfig(
        multi_token=policy, context_tokens=tokens)))) for tokens in (0, 20))
    assert (usual.rank, usual.probability) == (same.rank, same.probability)


def test_more_context_than_a_model_takes_is_refused(wordpiece: CheckpointPredictor) -> None:
    record = Record(id="1", text=f"Il {MASK} batte.", target="cuore")
    with pytest.raises(BmtoolsError, match="context_tokens: found 31, expected at most 30, as "
                                           "wordpiece takes 64 tokens at a time"):
        score_masked_words([record], [wordpiece], MrrConfig(context_tokens=31))
    assert list(score_masked_words([record], [wordpiece], MrrConfig(context_tokens=30)))


def test_a_long_text_is_refused_once_and_as_it_was(
        wordpiece: CheckpointPredictor, save: Callable[[Any], Any], tmp_path: Any) -> None:
    (tmp_path / "terms.txt").write_text("cuore\ndopamina\n")
    long = {"id": "long", "text": SENTENCE * 100, "meta": {"year": 2026}}
    short = {"id": "short", "text": SENTENCE}
    refused: list[RecordError] = []
    common = {"models": save(wordpiece), "terms": str(tmp_path / "terms.txt"), "device": "cpu"}
    [line] = mrr([long, short], reject=refused.append, **common)
    assert line["maskings"] == 2
    assert [error.content for error in refused] == [long]
    [line] = mrr([long, short], context_tokens=8, **common)
    assert line["maskings"] == 202
    assert "|context:8|" in line["signature"]


def test_encoding_grows_with_the_maskings_and_not_with_their_square(
        wordpiece: CheckpointPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = TargetLookup(wordpiece.tokenizer, ignore_case=True)
    backend, read = lookup._backend, []

    class Counting:
        def encode(self, text: str) -> Any:
            read.append(len(text))
            return backend.encode(text)

    monkeypatch.setattr(lookup, "_backend", Counting())
    for sentences in (50, 500):
        text = SENTENCE * sentences + MASK + " " + SENTENCE * sentences
        lookup.find(text, "Zyx", wordpiece.max_tokens)
    assert read
    assert max(read) < 40 * wordpiece.max_tokens
