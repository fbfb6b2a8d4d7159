"""Lost negations in translations."""

from __future__ import annotations

import pytest

from bmtools.translation.negations import lacks_negation


@pytest.mark.parametrize(("source", "target", "language", "is_lost"), [
    ("No fever was seen.", "Non è stata osservata febbre.", "it", False),
    ("No fever was seen.", "È stata osservata febbre.", "it", True),
    ("She does not cough and has no pain.", "Non tossisce e ha dolore.", "it", True),
    ("It was not seen in any patient.", "È stato osservato in nessun paziente.", "it", True),
    ("without sequelae", "in assenza di sequele", "it", False),
    ("whether or not it grows, not only here", "che cresca o meno, non solo qui", "it", False),
    ("Neither A nor B helped.", "Né A né B hanno aiutato.", "it", False),
    ("It isn't safe.", "Ce n'est pas sûr.", "fr", False),
    ("It isn't safe.", "C'est sûr.", "fr", True),
    ("without pain", "avec douleur", "fr", True),
    ("No patient died.", "Ningún paciente murió.", "es", False),
    ("No patient died.", "El paciente murió.", "es", True),
    ("No patient died.", "Kein Patient starb.", "de", False)])
def test_lost_negations_are_found(source: str, target: str, language: str, is_lost: bool) -> None:
    assert lacks_negation(source, target, "en", language) is is_lost


def test_negations_are_found_in_other_source_languages() -> None:
    assert lacks_negation("Non ha febbre.", "He has fever.", "it", "en")
    assert not lacks_negation("Il n'a pas de fièvre.", "He has no fever.", "fr", "en")
