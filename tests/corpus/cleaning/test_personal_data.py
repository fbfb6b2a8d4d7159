"""Personal data: invented numbers with correct and wrong check digits."""

from __future__ import annotations

import pytest

from bmtools.corpus.cleaning.edits import EditedText
from bmtools.corpus.cleaning.personal_data import PersonalData
from bmtools.corpus.cleaning.settings import KINDS

CASES = {
    "email": [("Write to mario.rossi+x@example.co.uk.", "Write to [EMAIL]."),
              ("45@1000, Pharm@idea S.r.l., a@b", None)],
    "phone": [("Tel. 06 1234 5678 or +39 333 123 4567.", "Tel. [PHONE] or [PHONE]."),
              ("call (555) 010-4477, 555-010-4477", "call [PHONE], [PHONE]"),
              ("Telefono: +39-06-12345678; fax 0612345679", "Telefono: [PHONE]; fax [PHONE]"),
              ("Ca2+ 123 4567 units, 2001-2005 1234, (95% CI 1.23-4.56; p=0.0012345)", None),
              ("Mol Cell 2006 24 853 865; mobile 12 patients; "
               "NCT01234567; 10.1016/0002-9149(94)90181", None),
              ("cell: 1.000.000/ml; doi: 10.1016/j.cell.2010.01.001; tel. 10.1000/1234567", None)],
    "record-number": [("MRN: 00123456 and cartella clinica n. 2021/1234",
                       "MRN: [RECORD-NUMBER] and cartella clinica n. [RECORD-NUMBER]"),
                      ("Patient ID A1234567, dossier n° 99812",
                       "Patient ID [RECORD-NUMBER], dossier n° [RECORD-NUMBER]"),
                      ("MRN imaging at 1.5 T; GenBank accession no. AI979399; "
                       "medical record review of 120 cases", None)],
    "iban": [("IBAN DE89 3704 0044 0532 0130 00.", "IBAN [IBAN]."),
             ("IBAN DE88 3704 0044 0532 0130 00.", None)],
    "codice-fiscale": [("C.F. RSSMRA85T10A562S,", "C.F. [CODICE-FISCALE],"),
                       ("cf rssmra85t10a562s, RSS MRA 85T10 A562S",
                        "cf [CODICE-FISCALE], [CODICE-FISCALE]"),
                       ("C.F. RSSMRA85T10A562T, rss mra 85t10 a562t", None)],
    "dni": [("DNI 12345678Z, NIE X1234567L", "DNI [DNI], NIE [DNI]"),
            ("NIE X0000010X, Y-0000000Z", "NIE [DNI], [DNI]"),
            ("12345678A, 12345678, X0000010Y", None)],
    "nir": [("NIR 2 55 08 14 168 025 38 et 255081416802538", "NIR [NIR] et [NIR]"),
            ("1 85 05 2A 004 016 76", None), ("255081416802539", None)],
    "steuer-id": [("IdNr. 86095742719; 86 095 742 719", "IdNr. [STEUER-ID]; [STEUER-ID]"),
                  ("86095742719; IdNr. 86095742718", None)],
    "ssn": [("SSN 078-05-1120", "SSN [SSN]"), ("666-05-1120, 000-12-1234, 978-05-1120", None)],
    "nhs-number": [("NHS number 9434765919, 943 476 5919", "NHS number [NHS-NUMBER], [NHS-NUMBER]"),
                   ("9434765919, 943 476 5918", None)],
    "cpf": [("CPF 529.982.247-25", "CPF [CPF]"), ("529.982.247-26, 111.111.111-11", None)],
    "birth-date": [("Nata il 12/03/1950, born on March 5, 1980", "Nata il [BIRTH-DATE], born on "
                    "[BIRTH-DATE]"),
                   ("nato a Roma il 5 maggio 1961; DOB: 1990-01-31; geb. am 3.4.1955",
                    "nato a Roma il [BIRTH-DATE]; DOB: [BIRTH-DATE]; geb. am [BIRTH-DATE]"),
                   ("born in 1980 at 39 weeks; on 12/03/1950", None)]}


@pytest.mark.parametrize(("kind", "text", "expected"), [
    (kind, *case) for kind, cases in CASES.items() for case in cases])
def test_each_kind_of_personal_data_is_found(kind: str, text: str, expected: str | None) -> None:
    edited = EditedText(text)
    PersonalData([kind]).mask(edited)
    assert edited.text == (expected or text)
    assert edited.counts.get(kind, 0) == (expected or "").count(f"[{kind.upper()}]")


def test_masks_and_other_text_are_not_masked() -> None:
    for cases in CASES.values():
        for text, expected in cases:
            edited = EditedText(expected or text)
            PersonalData(KINDS).mask(edited)
            assert edited.text == (expected or text)
