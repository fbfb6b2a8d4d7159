"""Sentences of English, Italian, German, French and Spanish biomedical text."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from bmtools.text.abbreviations import read_abbreviations
from bmtools.text.segment import sentence_spans, stretch_spans, stretches

CORPUS = Path(__file__).parents[1] / "corpus"


def sentences(text: str, lang: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, lang)]


# Bars mark the sentence borders; other text must not be divided.
@pytest.mark.parametrize(("lang", "marked"), [
    ("en", "The result is shown in Fig. 2 and in Tab. 3.|It was clear."),
    ("en", "We gave 5 mg vs. 10 mg of a drug, e.g. aspirin.|No effect was seen."),
    ("en", "Candida spp. were found in urine.|S. aureus and E. coli grew at 37 °C.|Good."),
    ("en", "Smith et al. showed this.|Others did not."),
    ("en", "Amoxicillin was given i.v. every day for ca. 30 days.|The patient recovered."),
    ("en", "Pain lasted for 10 d.|The scan was normal."),
    ("en", "The rate was 120 beats/min.|Atenolol was started."),
    ("en", "She had acute hepatitis C.|The infection was treated with interferon."),
    ("en", "Pressure fell to 90 mm Hg.|Patients were followed for a year."),
    ("en", "Dr. Rossi saw Mrs. A. Bianchi.|She was well."),
    ("en", "Is it benign?|Yes!|It is."),
    ("en", "Values (see text. They differ) were low.|Fine."),
    ("it", "Il dott. Rossi ha visitato la sig.ra Verdi.|Stava bene."),
    ("it", "Farmaci, ad es. il paracetamolo, vanno evitati.|Si veda pag. 12."),
    ("it", "Terapia con ceftriaxone 2 g e.v. ogni giorno per ca. 10 giorni.|Poi dimesso."),
    ("it", "Fu dato 0.5 mg.|Il paziente stava bene."),
    ("it", "Lesione di 8 cm.|Nell\u2019ultimo anno viaggi in Africa."),
    ("it", "Emocolture positive per S. aureus.|La terapia fu cambiata."),
    ("it", "Veniva ricoverata in PS.|Doppler venoso negativo."),
    ("it", "La paz. presentava febbre.|Nessun dolore."),
    ("it", "Urinocoltura positiva per E. Coli.|Emocolture per S. Aureus e H. Pylori negative."),
    ("it", "Carenza di vit. B12 e di vit. D.|Assume 1 cp. al giorno ogni 12 h. dopo i pasti."),
    ("it", "Ricoverato presso Osp. Maggiore di Parma, poi presso l'U.O. Medicina."),
    ("it", "Secondo il D.Lgs. 219 del 2006 e la Pfizer S.p.A. Milano ne risponde."),
    ("it", "Il farmaco è della Pfizer S.p.A.|Il paziente lo assume."),
    ("it", "Fu osservata dal prof. A. Bianchi e da M. Rossi.|Si notava linfocitosi T.|La "
           "paziente aveva emofilia A.|Stava bene."),
    ("it", "G. R., uomo di 71 anni, giunge in PS.|All'E. O. torace libero."),
    ("it", "Assume tp. antibiotica e sol. orale.|Al lab. anemia."),
    ("it", "Chemioterapia (Mitotane, poi recidiva.|Fu operata (2010).|Sindrome da Iper IgM.|Data "
           "la citopenia, SGA-B.|P.A. normale."),
    ("en", "Sodium rose to 172 mEq/L.|Six days later it fell."),
    ("en", "It was written by A. Smith and J. Doe, and by S. Aureus.|Good."),
    ("de", "Bei M. Parkinson und Z.n. Apoplex am 3. März im 6. Lebensjahr.|Er ist 12.|Die "
           "Pat. ging."),
    ("de", "Kontrolle durch Hrn. Dr. B. Schulz bei chron. Niereninsuffizienz.|Das Labor war o. B.|"
           "Der Patient ging."),
    ("de", "Hepatitis C.|Die Therapie wurde begonnen.|Keine Ödeme bds.|Lunge frei.|Unauff., "
           "stabil."),
    ("fr", "M. Dupont et Mme. Martin ont vu le Dr. Durand et le Pr. A. Petit.|Groupe A.|Une "
           "transfusion suit.|C'est l'état de l'art.|Les autres vont bien."),
    ("fr", "Il prend 1 cp. matin et soir, env. 2 gél. le midi, p. ex. un antalgique, etc.|Pas "
           "d'allergie.|Les adultes d'Ae. albopictus volent."),
    ("es", "Recibió aprox. 5 mgr. de morfina, p. ej. en el Hosp. Clínico.|Tto. con cloxacilina."),
    ("es", "Dolor en hombro dcho.|Se realizó Rx. de tórax.|Positivo en gripe A.|Se dio el alta."),
    ("es", "Las heridas cicatrizaron bien.|El paciente tuvo un volumen de 101,7 c.c.|En los "
           "análisis nada.|Fueron compatibles con ST.|Se le operó."),
])
def test_sentence_borders_by_hand(lang: str, marked: str) -> None:
    expected = marked.split("|")
    assert sentences(" ".join(expected), lang) == expected


@pytest.mark.parametrize(("lang", "precision", "recall"), [("it", 0.99, 0.98), ("en", 0.98, 0.99)])
def test_border_errors_in_annotated_texts(lang: str, precision: float, recall: float) -> None:
    """Without this list, the values were 0.90 and 0.99 for Italian, 0.98 and 0.96 for English."""
    lines = (CORPUS / f"borders-{lang}.txt").read_text("utf-8").splitlines()
    places = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(places) == 200
    found = [verdict for verdict, _, excerpt in places
             if ends_a_sentence(excerpt.replace("\\n", "\n"), lang)]
    right = found.count("+")
    assert right / len(found) >= precision
    assert right / sum(verdict == "+" for verdict, *_ in places) >= recall


def border_errors(passages: Iterable[list[str]], lang: str) -> float:
    """Return borders found inside sentences and missed borders, per sentence."""
    wrong = total = 0
    for lines in passages:
        text = " ".join(lines)
        ends = {*itertools.accumulate(map(len, lines), lambda end, length: end + 1 + length)}
        wrong += len(ends ^ {end for _, end in sentence_spans(text, lang)})
        total += len(lines)
    return wrong / total


def test_border_errors_in_german_letters() -> None:
    """Without the German list, the value was 0.12."""
    text = (CORPUS / "sentences-de.txt").read_text("utf-8").partition("\n\n")[2]
    lines = [passage.splitlines() for passage in text.split("\n\n")]
    assert border_errors(lines, "de") <= 0.02


@pytest.mark.data
def test_border_errors_in_spanish_cases(data: Path) -> None:
    """Without the Spanish list, the value was 0.037. Captions without a point also count."""
    blocks = [(data / f"es/ner/E3C/{part}.txt").read_text() for part in ("train", "test")]
    passages = [[re.sub(r" ([.,;:!?)\]])", r"\1", " ".join(line.rpartition(" ")[0]
                                                         for line in sentence.splitlines()))
                 for sentence in block.strip().split("\n\n")] for block in blocks]
    assert border_errors(passages, "es") <= 0.03


def ends_a_sentence(excerpt: str, lang: str) -> bool:
    """Return whether there is a border at the sign."""
    spans = sentence_spans(excerpt.replace("‖", " "), lang)
    return excerpt.index("‖") in {end for _, end in spans}


def test_user_abbreviations_are_used(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("# of our hospital\nriab.  # riabilitazione\n\nAmb. ...\n")
    text = "Visto in Amb. Cardiologia dopo riab. (3 mesi) a casa. Sta bene."
    more = read_abbreviations(own)
    assert (more.leading, more.others) == ({"amb"}, {"riab"})
    assert len(sentence_spans(text, "it")) == 4
    assert [text[start:end] for start, end in sentence_spans(text, "it", more)] == [
        "Visto in Amb. Cardiologia dopo riab. (3 mesi) a casa.", "Sta bene."]


def assert_covering(text: str, spans: list[tuple[int, int]]) -> None:
    position = 0
    for start, end in spans:
        assert position <= start < end <= len(text)
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()


def test_spans_cover_any_text() -> None:
    rng = random.Random(0)
    signs = ("aAbBéÈ. .. !?\n\n\t\"'()[]“”«»1,;:…😀%°/µ。"
             "\U0001d4b3\u0301\u2028\u00a0\r\x85\u3000\u200b\ufeff")
    for _ in range(4000):
        text = "".join(rng.choice(signs) for _ in range(rng.randrange(40)))
        for lang in ("en", "it", "ja", "xx"):
            assert_covering(text, sentence_spans(text, lang))


@pytest.mark.parametrize("piece", ["A. ", "( word. The ", '"x. The ', "a\n\n", "word ", "1. "])
def test_time_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    started = time.process_time()
    text = piece * (100_000 // len(piece))
    assert_covering(text, sentence_spans(text, "it"))
    assert time.process_time() - started < 10


@pytest.mark.data
def test_general_italian_lines_are_one_sentence_each(data: Path) -> None:
    lines = (data / "it/corpus/general-ud.txt").read_text().splitlines()
    whole = sum(len(sentence_spans(line, "it")) == 1 for line in lines)
    assert whole / len(lines) > 0.95


def stretches_of(text: str) -> list[str]:
    return [text[start:end] for start, end in stretches(text)]


@pytest.mark.parametrize(("text", "expected"), [
    ("", [""]), ("no end", ["no end"]),
    ("Patients improved. They left.", ["Patients improved. ", "They left."]),
    ("We gave approx. Ten of them.", ["We gave approx. Ten of them."]),
    ("It was low. Then it rose.", ["It was low. Then it rose."]),
    ("The liver (which failed. It did) recovered. The end came.",
     ["The liver (which failed. It did) recovered. ", "The end came."]),
    ('He said "nothing helps. Nothing ever" and slept. We left.',
     ['He said "nothing helps. Nothing ever" and slept. ', "We left."]),
    ("A list 1) is closed. Never again.", ["A list 1) is closed. Never again."]),
])
def test_stretches_end_only_at_certain_borders(text: str, expected: list[str]) -> None:
    assert stretches_of(text) == expected
    assert "".join(stretches_of(text)) == text


@pytest.mark.data
@pytest.mark.parametrize(("name", "lang", "most"), [
    ("en/corpus/pubmed-drug-reviews.jsonl.gz", "en", 0.005),
    ("en/corpus/pubmed-case-reports.jsonl.gz", "en", 0.005),
    ("it/corpus/native-leaflets.jsonl.gz", "it", 0.005)])
def test_stretches_have_the_sentences_of_the_text(data: Path, name: str, lang: str,
                                                  most: float) -> None:
    with gzip.open(data / name, "rt", encoding="utf-8") as stream:
        texts = [json.loads(line)["text"] for line in itertools.islice(stream, 400)]
    whole = {(number, *span) for number, text in enumerate(texts)
             for span in sentence_spans(text, lang)}
    cut = {(number, begin + start, begin + end) for number, text in enumerate(texts)
           for begin, stop in stretches(text)
           for start, end in stretch_spans(text[begin:stop], lang)}
    assert len(whole ^ cut) <= most * len(whole)
    assert sum(len(stretches(text)) for text in texts) > 2 * len(texts)
