"""Scores of translations against references: sacrebleu's chrF, BLEU and TER, and terms kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.errors import DataError, Reject, refuse, require
from bmtools.io.jsonl import RecordReader
from bmtools.io.sources import source_name, source_stem
from bmtools.records import JsonObject, distinct
from bmtools.status import set_status
from bmtools.text.languages import primary_language
from bmtools.translation.audit import Auditor
from bmtools.translation.bilingual import read_pairs
from bmtools.translation.quantities import lost_numbers, numbers_of
from bmtools.translation.settings import TEXTS, QualityConfig
from bmtools.translation.terms import TermFinder, has_term

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

_IDS_NAMED = 3
# sacrebleu's tokenizers for Japanese and Korean need further packages.
_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char", "lo": "char", "my": "char",
               "km": "char"}


@dataclass(frozen=True)
class Segments:
    """Texts of a file.

    Args:
        name: name of the file.
        texts: texts by id and key.
        lang: language of the records; empty if they do not state it.
    """

    name: str
    texts: dict[tuple[str, str], str]
    lang: str = ""

    def matching(self, others: Segments) -> list[str]:
        """Return the texts in the order of others, which must have the same keys.

        Raises:
            DataError: a text is missing from one of the two files.
        """
        for some, rest in ((self, others), (others, self)):
            missing = [key for key in rest.texts if key not in some.texts]
            if missing:
                ids = [repr(one) for one in dict.fromkeys(key[0] for key in missing)]
                named = ", ".join(ids[:_IDS_NAMED]) + ", ..." * (len(ids) > _IDS_NAMED)
                raise DataError(
                    f"{some.name}: found no {missing[0][1]} for {len(missing)} of "
                    f"{len(rest.texts)} texts of {rest.name} (ids {named}), expected one for each")
        return [self.texts[key] for key in others.texts]


def score_translation(hypotheses: str, references: str, sources: str | None = None, *,
                      baseline: str | None = None, glossary: Path | None = None,
                      source_lang: str = QualityConfig.source_lang,
                      target_lang: str = QualityConfig.target_lang,
                      resamples: int = QualityConfig.resamples,
                      reject: Reject = refuse) -> list[JsonObject]:
    """Score translations against references.

    All texts are kept in memory. The bootstrap needs some hundred bytes for each resample of each
    segment.

    Args:
        hypotheses: file of translations.
        references: file of human translations of the same texts.
        sources: file of the texts that were translated.
        baseline: file of other translations to compare with.
        glossary: TSV or TMX of terms and their translations; needs sources.
        source_lang: see `QualityConfig`.
        target_lang: see `QualityConfig`.
        resamples: see `QualityConfig`.
        reject: receives bad records.

    Returns:
        a line for each file of translations, and one for their difference.

    Raises:
        DataError: files that do not match, or contain no text.
    """
    QualityConfig(source_lang, target_lang, resamples)
    require(not glossary or bool(sources), "glossary", glossary, "a file of sources")
    set_status("scoring")
    gold = read_segments(references, reject)
    if not any(text.strip() for text in gold.texts.values()):
        raise DataError(f"{gold.name}: found no text, expected translations by people")
    systems = [read_segments(name, reject) for name in filter(None, (baseline, hypotheses))]
    texts = {source_stem(one.name): one.matching(gold) for one in systems}
    require(len(texts) == len(systems), "baseline", baseline,
            "a file whose name differs from the name of the hypotheses")
    kept: dict[str, JsonObject] = {name: {} for name in texts}
    target = target_lang or gold.lang
    if sources:
        segments = read_segments(sources, reject)
        originals, source = segments.matching(gold), source_lang or segments.lang
        auditor = Auditor(source, target) if source and target else None
        terms = TermFinder(dict(read_pairs(glossary, source, target))) if glossary else None
        kept = {name: _compare(originals, found, target, auditor, terms)
                for name, found in texts.items()}
    return list(_lines(texts, list(gold.texts.values()), kept, resamples,
                       _TOKENIZERS.get(primary_language(target))))


def read_segments(name: str, reject: Reject = refuse) -> Segments:
    """Read the texts of all records in a file."""
    texts: dict[tuple[str, str], str] = {}
    languages: Counter[str] = Counter()
    for record in distinct(RecordReader([name], reject), reject):
        texts.update(((record["id"], key), record[key]) for key in TEXTS if key in record)
        languages[record.get("lang", "")] += 1
    return Segments(source_name(name), texts, max(languages, key=languages.__getitem__, default=""))


def _lines(systems: Mapping[str, Sequence[str]], references: Sequence[str],
           kept: Mapping[str, JsonObject], resamples: int,
           tokenizer: str | None) -> Iterator[JsonObject]:
    """Score each system with sacrebleu, and compare the second with the first (Koehn 2004)."""
    from sacrebleu.metrics import BLEU, CHRF, TER
    from sacrebleu.significance import PairedTest

    metrics: dict[str, Metric] = {"chrf": CHRF(), "bleu": BLEU(tokenize=tokenizer), "ter": TER()}
    # A test with a single system would give the same intervals.
    found, results = PairedTest(list(systems.items()), metrics, [references], "bs", resamples)()
    scores = dict(zip(metrics, map(results.__getitem__, found), strict=True))
    signatures = dict(zip(metrics, map(str, found.values()), strict=True))
    length = sum(map(len, references))
    for number, (name, texts) in enumerate(systems.items()):
        own = {key: of_systems[number] for key, of_systems in scores.items()}
        yield {"model": name, "segments": len(references),
               **{key: _rounded(one.score) for key, one in own.items()},
               "intervals": {key: [_rounded(max(one.mean - one.ci, 0)),
                                   _rounded(min(one.mean + one.ci, inf if key == "ter" else 100))]
                             for key, one in own.items()},
               "length_ratio": round(sum(map(len, texts)) / length, 4), **kept[name],
               "signatures": signatures}
    if len(systems) > 1:
        yield {"compared": list(systems)[::-1],
               "difference": {key: _rounded(second.score - first.score)
                              for key, (first, second) in scores.items()},
               "p": {key: round(second.p_value, 6) for key, (_, second) in scores.items()}}


def _compare(sources: Sequence[str], texts: Sequence[str], target_lang: str,
             auditor: Auditor | None, terms: TermFinder | None) -> JsonObject:
    """Count the numbers, terms and flags of translations, in the order of their sources."""
    pairs = list(zip(sources, texts, strict=True))
    numbers = sum(len(numbers_of(source)) for source in sources)
    lost = sum(len(lost_numbers(*pair, target_lang)) for pair in pairs)
    counts: JsonObject = {"numbers": numbers, "numbers_kept": _share(numbers - lost, numbers)}
    if terms:
        found = [has_term(text, term.target) for text, own in zip(
            texts, terms.find(sources), strict=True) for term in own]
        counts |= {"terms": len(found), "terms_kept": _share(sum(found), len(found))}
    if auditor:
        flags = Counter(name for pair in pairs for name in auditor.faults(*pair))
        counts["flagged"] = dict(sorted(flags.items()))
    return counts


def _rounded(score: float) -> float:
    return round(float(score), 4)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
