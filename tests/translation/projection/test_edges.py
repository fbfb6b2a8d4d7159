"""Rules that correct the edges of spans."""

from __future__ import annotations

import pytest

from bmtools.translation.projection.edges import correct_edges
from bmtools.translation.projection.pairs import Projection, SentencePair


def place(text: str, words: str) -> Projection:
    start = text.index(words)
    return Projection(start, start + len(words), 0.5)


@pytest.mark.parametrize(("source", "span", "target", "found", "expected"), [
    ("Fever was treated well.", "Fever was treated well.", "La febbre fu curata bene.",
     "febbre fu curata", "La febbre fu curata bene."),
    ("Treatment with aspirin helped many of the old patients in May.",
     "Treatment with aspirin helped many of the old patients",
     "Il trattamento con aspirina ha aiutato molti dei vecchi pazienti a maggio.",
     "trattamento con aspirina ha aiutato molti dei vecchi pazienti",
     "Il trattamento con aspirina ha aiutato molti dei vecchi pazienti"),
    ("Answer 2 is false (Turner)", "Answer 2 is false", "La risposta 2 è falsa (Turner)",
     "risposta 2 è falsa", "La risposta 2 è falsa"),
    ("They are old, so we wait", "They are old,", "Sono vecchi, per cui aspettiamo",
     "Sono vecchi, per", "Sono vecchi,"),
    ("ill and it helped him a lot today.", "it helped him a lot today.",
     "malato e lo ha aiutato molto oggi.", "e lo ha aiutato molto oggi.",
     "lo ha aiutato molto oggi."),
    ("cases of severe asthma here", "severe asthma", "casi di asma grave qui", "di asma grave",
     "asma grave"),
    ("Asthma was common", "Asthma", "L'asma era comune", "L'asma", "asma"),
    ("the patient here", "the patient", "qui il paziente", "paziente", "il paziente"),
    ("use of aspirin here", "aspirin", "uso dell'aspirina, qui", ", qui", "qui"),
    ("He is well. She is not.", "He is well.", "Sta bene. Lei no.", "Sta bene", "Sta bene."),
    ("see fever, then", "fever", "vedi febbre, poi", "febbre,", "febbre"),
    ("a disease (AD) here", "disease (AD)", "una malattia (AD) qui", "malattia (AD",
     "malattia (AD)"),
    ("the (fever) here", "fever", "la (febbre qui", "(febbre", "febbre"),
    ("the (fever) here", "fever", "la febbre) qui", "febbre)", "febbre"),
    ("He has severe asthma now", "severe asthma", "Il paziente con asma grave ha ora",
     "con asma grave ha", "asma grave"),
    ("pain that has been felt", "pain", "dolore che sono stati", "dolore che sono", "dolore")])
def test_each_rule_corrects_its_case(source: str, span: str, target: str, found: str,
                                     expected: str) -> None:
    start = source.index(span)
    [corrected] = correct_edges(SentencePair(source, target, ((start, start + len(span)),)),
                                [place(target, found)], "en", "it")
    assert corrected is not None
    assert target[corrected.start:corrected.end] == expected
    assert (corrected.is_corrected, corrected.score) == (True, 0.5)


@pytest.mark.parametrize(("source", "span", "target", "found"), [
    ("Fever, in group A, fell a lot in the first week", "Fever",
     "Nel gruppo A la febbre calò", "febbre"),
    ("the patient", "the patient", "il paziente", "il paziente"),
    ("with low DA", "low DA", "con bassa DA", "bassa DA"),
    ("type (A) here", "type (A)", "tipo (A) qui", "tipo (A)"),
    ("virus of type HA here", "virus of type HA", "virus di tipo HA qui", "virus di tipo HA"),
    ("status here", "status", "qui ha", "ha"),
    ("Few patients have it", "Few patients have", "Pochi lo hanno", "Pochi lo hanno"),
    ("Neither pain nor fever was reduced by the new treatment,",
     "Neither pain nor fever was reduced by the new treatment,",
     "Né dolore né febbre furono ridotti,", "Né dolore né febbre furono ridotti,")])
def test_correct_spans_are_not_changed(source: str, span: str, target: str, found: str) -> None:
    start = source.index(span)
    before = place(target, found)
    assert correct_edges(SentencePair(source, target, ((start, start + len(span)),)),
                         [before], "en", "it") == [before]


def test_neighbours_share_the_words_between_them() -> None:
    pair = SentencePair("no sense, so we rule it out", "non ha senso, per cui si esclude",
                        ((0, 9), (10, 27)))
    corrected = correct_edges(pair, [place(pair.target, "non ha senso,"),
                                     place(pair.target, "esclude")], "en", "it")
    assert [one and pair.target[one.start:one.end] for one in corrected] == [
        "non ha senso,", "per cui si esclude"]
    assert [one and one.is_corrected for one in corrected] == [False, True]


def test_span_without_a_place_gets_no_place() -> None:
    pair = SentencePair("fever", "febbre", ((0, 5),))
    assert correct_edges(pair, [None], "en", "it") == [None]
    assert correct_edges(SentencePair("", ""), [], "", "") == []
