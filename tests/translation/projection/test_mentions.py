"""Mentions found by their translations, in the exact or another form."""

import pytest

from bmtools.translation.projection.mentions import (
    DictionaryProjector,
    project_exactly,
    read_glossary,
)
from bmtools.translation.projection.pairs import SentencePair

SOURCE = "Liver failure and acute liver failure in children."
TARGET = "Insufficienze epatiche e insufficienza epatica acuta nei bambini."


def places(projector, pair):
    [found] = projector.project([pair])
    return [one and pair.target[one.start:one.end] for one in found]


def test_the_translation_of_an_engine_is_found_in_another_form_near_its_place():
    pair = SentencePair(SOURCE, TARGET, ((0, 13), (18, 37), (24, 37), (41, 49)),
                        ("insufficienza epatica", "insufficienza epatica acuta",
                         "insufficienza epatica", "bambino"))
    assert places(DictionaryProjector(), pair) == [
        "Insufficienze epatiche", "insufficienza epatica acuta", "insufficienza epatica",
        "bambini"]


def test_listed_terms_are_found_inside_longer_mentions():
    terms = {"liver failure": ["insufficienza epatica"], "acute": ["acuto", "acuta"],
             "liver": ["fegato"]}
    pair = SentencePair(SOURCE, TARGET, ((0, 13), (18, 37), (41, 49)))
    assert places(DictionaryProjector(terms), pair) == [
        "Insufficienze epatiche", "insufficienza epatica acuta", None]


def test_untranslated_names_are_found():
    pair = SentencePair("Aspirin and CYP2D6 in Milan", "CYP2D6 e aspirina a Torino",
                        ((0, 7), (12, 18), (22, 27)))
    assert places(DictionaryProjector(), pair) == ["aspirina", "CYP2D6", None]


def test_a_list_of_terms_keeps_several_translations(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("en\tit\ncold\traffreddore\ncold\tfreddo\nflu\tinfluenza\n")
    assert read_glossary(path, "en", "it") == {
        "cold": ["raffreddore", "freddo"], "flu": ["influenza"]}
    pair = SentencePair("A cold.", "Un freddo.", ((2, 6),))
    assert places(DictionaryProjector(read_glossary(path, "en", "it")), pair) == ["freddo"]


@pytest.mark.parametrize(("source", "target", "span", "mention", "expected"), [
    ("Aspirin helps.", "L'aspirin aiuta.", (0, 7), "", (2, 9)),
    ("Pain, then fever.", "Dolore, poi dolore, poi febbre.", (0, 4), "dolore", (0, 6)),
    ("Then pain.", "Dolore, poi dolore.", (5, 9), "dolore", (12, 18)),
    ("DA falls.", "Da ieri DA cala.", (0, 2), "", (8, 10)),
    ("In 5 mg", "15 mg, 5 mg", (3, 4), "", (7, 8)),
    ("Severe pain", "Dolore  intenso", (0, 11), "dolore intenso", (0, 15)),
    ("Fever.", "Febbre.", (0, 5), "", None),
    ("C++ x", "x C++", (0, 3), "", (2, 5))])
def test_nearest_occurrence_is_chosen(
        source: str, target: str, span: tuple[int, int], mention: str,
        expected: tuple[int, int] | None) -> None:
    [[found]] = project_exactly([SentencePair(source, target, (span,), (mention,))])
    assert (found and (found.start, found.end)) == expected
    assert found is None or 0 < found.score <= 1
