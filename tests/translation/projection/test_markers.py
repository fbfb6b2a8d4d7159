"""Marks that are translated with the sentence, and marks whose places are scored."""

from types import SimpleNamespace

import numpy as np
import pytest

from bmtools.errors import CheckpointError
from bmtools.translation.engines.transformers_engine import TransformersTranslator
from bmtools.translation.projection.markers import (
    MarkersProjector,
    ScoreProjector,
    brackets_for,
    find_marks,
    mark_spans,
)
from bmtools.translation.projection.pairs import SentencePair
from bmtools.translation.settings import ModelConfig


@pytest.mark.parametrize(("spans", "marked"), [
    (((2, 3),), "a [b] c d"), (((0, 3), (4, 7)), "[1 a b 1] [2 c d 2]"),
    (((0, 7), (0, 1)), "[1 [2 a 2] b c d 1]"), (((0, 1), (1, 3)), "[1 a 1][2  b 2] c d"),
    (((0, 5), (2, 7)), "[1 a [2 b c 1] d 2]"), ((), "a b c d")])
def test_marks_around_spans_are_found_again(spans, marked):
    assert mark_spans("a b c d", spans, "[]") == marked
    clean, found = find_marks(marked, "[]", len(spans))
    assert clean.replace(" ", "") == "abcd"
    assert [clean[start:end].split() for start, end in found] == [
        "a b c d"[start:end].split() for start, end in spans]


def test_brackets_are_those_that_the_sentence_lacks():
    assert brackets_for("plain") == "[]"
    assert brackets_for("with [its own]") == "{}"
    assert brackets_for("[{(<\u00ab") == "\u00ab\u00bb"


@pytest.mark.parametrize(("text", "count", "found"), [
    ("x [ y z ] w", 1, ["y z"]), ("x [y z", 1, [None]), ("x y] z", 1, [None]),
    ("x [] z", 1, [None]),
    ("[2 in 3 2] e [ 1 in 4 1 ]", 2, ["in 4", "in 3"]),
    ("[1 uno 1] [3 tre 3]", 2, ["uno", None]), ("[1 uno 1] [2 due", 2, ["uno", None])])
def test_what_engines_make_of_marks(text, count, found):
    clean, spans = find_marks(text, "[]", count)
    assert [span and clean[slice(*span)] for span in spans] == found


def test_the_clean_translation_is_kept(dictionary):
    engine = dictionary({
        "The [advanced breast cancer] was rare.": "Il [cancro di mamma avanzata] era raro.",
        "A [1 pain 1] and a [2 fever 2].": "Un dolore 1] e una [2 febbre 2]."}, batch_sentences=1)
    pairs = [SentencePair("The advanced breast cancer was rare.",
                          "Il cancro al seno avanzato era molto raro.", ((4, 26),)),
             SentencePair("No span.", "Nulla."),
             SentencePair("A pain and a fever.", "Un dolore e febbri.", ((2, 6), (13, 18))),
             SentencePair("A [fault].", "Un [errore].", ((3, 8),))]
    projector = MarkersProjector(engine)
    found = projector.project(pairs)
    assert [[one and pair.target[one.start:one.end] for one in places]
            for pair, places in zip(pairs, found, strict=True)] == [
        ["cancro al seno avanzato"], [], [None, "febbri"], [None]]
    assert [len(call) for call in engine.calls] == [1, 1, 1]
    assert "A [{fault}]." in {one for call in engine.calls for one in call}


class Scorer:
    """A model of characters that likes its marks around the capitals of the other side."""

    settings = SimpleNamespace(model="model")

    def __init__(self, unknown="", max_length=40):
        self.subwords = SimpleNamespace(
            tokenizer=SimpleNamespace(unk_token="<unk>"), max_length=max_length,
            encode=lambda text: [*("<unk>" if one in unknown else one for one in text), "</s>"],
            encode_target=lambda text: [*text, "</s>"])
        self.sizes = []

    def score(self, sources, targets):
        self.sizes.append(len(targets))
        return [[self.liked(source, target, at) for at in range(len(target))]
                for source, target in zip(sources, targets, strict=True)]

    def liked(self, source, target, at):
        marked = "".join(source).partition("[")[2].partition("]")[0]
        before, mark = "".join(target[:at]), target[at]
        following = next((one for one in target[at + 1:] if one.isalpha()), "")
        if mark == "[":
            return -1.0 if not following or following == marked[0].upper() else -5.0
        if mark == "]":
            return -1.0 if before.endswith(marked[-1].upper()) else -5.0
        return -0.1


def places(projector, *pairs):
    return [[one and pair.target[one.start:one.end] for one in found]
            for pair, found in zip(pairs, projector.project(pairs), strict=True)]


PAIR = SentencePair("a b c d", "D C B A", ((0, 1), (2, 5)))


def test_the_likeliest_place_of_the_marks_is_taken():
    # The closing mark after C; the opening one anywhere before costs the same for the model above.
    scorer = Scorer()
    assert places(ScoreProjector(scorer), PAIR, SentencePair("x", "X"))[1] == []
    assert scorer.sizes[0] == 8
    [[found, _]] = ScoreProjector(Scorer()).project([PAIR])
    assert PAIR.target[found.start:found.end] == "A"
    assert 0 < found.score <= 1


def test_a_sentence_that_is_too_long_for_the_model_has_no_place():
    assert places(ScoreProjector(Scorer(max_length=5)), PAIR) == [[None, None]]


def test_brackets_that_the_model_does_not_know_are_not_used():
    with pytest.raises(CheckpointError, match=r"none of the brackets \[\] {} \(\)"):
        ScoreProjector(Scorer(unknown="[]{}()<>\u00ab\u00bb"))
    assert ScoreProjector(Scorer(unknown="["))._brackets[0] == "{}"


def test_all_places_within_the_bound_are_scored_by_the_model(m2m, monkeypatch):
    """The best of all marked translations, beside a brute-force search."""
    translator = TransformersTranslator(ModelConfig(m2m, device="cpu"), "en", "it")
    pair = SentencePair("Pain was reduced by 30% (p < 0.05).", "Il dolore (p < 0.05).", ((24, 34),))
    words = [(0, 2), (3, 9), (10, 11), (11, 12), (13, 14), (15, 19), (19, 20), (20, 21)]
    projector = ScoreProjector(translator)
    monkeypatch.setattr(projector, "_brackets", ("()",))
    source = translator.subwords.encode("Pain was reduced by 30% ((p < 0.05)).")
    spans = [(start, end) for number, (start, _) in enumerate(words) for _, end in words[number:]]
    texts = [f"{pair.target[:start]}({pair.target[start:end]}){pair.target[end:]}"
             for start, end in spans]
    sums = [sum(one) for one in translator.score(
        [source] * len(spans), [translator.subwords.encode_target(text) for text in texts])]
    monkeypatch.setattr("bmtools.translation.projection.markers._OPENINGS", len(words))
    [[found]] = projector.project([pair])
    assert (found.start, found.end) == spans[int(np.argmax(sums))]
    shares = np.exp(sums) / np.exp(sums).sum()
    assert found.score == pytest.approx(shares.max(), rel=1e-3)
