"""Masked-language-model perplexity under ways of hiding: which task is how hard.

Source: Pavlova and Makhlouf 2023 (BIOptimus), section 8.1 and figure 4.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import stdev
from typing import Any

import numpy as np

from bmtools.errors import BmtoolsError, DataError, RecordError, Reject, refuse
from bmtools.masking.coverage import Coverage
from bmtools.records import Record
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.groups import Groups
from bmtools.scoring.masked_lm_predictions import FATES, MaskedBatches, TokenLosses, answers
from bmtools.scoring.masked_lm_sequences import SequenceMasker, Sequences, text_keys
from bmtools.scoring.masked_lm_settings import Combination, MaskedLmLossConfig
from bmtools.scoring.settings import InferenceConfig, StatisticsConfig
from bmtools.scoring.signature import short_fingerprint, signature
from bmtools.scoring.statistics import interval
from bmtools.vocab.encoding import EncodedTexts

_NATS, _HIDDEN, _RIGHT = range(3)
# Tokens of one window, counted once for each combination and draw: some 20 MB.
_TOKENS_AT_ONCE = 1 << 20
_CHARACTERS_A_TOKEN = 4
_DIGITS = 6


class MaskedLmLoss:
    """Hides tokens of texts in several ways, and counts what models restore of them.

    Every hidden token is asked for, also those that stay themselves or become random ones, as in
    training. Models of one vocabulary meet the same masks. 24 bytes are kept for each text, model
    and combination, as intervals are drawn over texts.

    Args:
        models: loaded, each asked about all texts.
        settings: what is hidden.
        terms: words and phrases for masking by terms.
        by: keys of records to tell texts apart by.
        passes: how rows meet the models.
        seed: of masks.

    Raises:
        BmtoolsError: a model that takes no rows of this length, or no such segmenter.
    """

    def __init__(self, models: Sequence[CheckpointPredictor], settings: MaskedLmLossConfig, *,
                 terms: Sequence[str] = (), by: Sequence[str] = (),
                 passes: InferenceConfig | None = None, seed: int = 0) -> None:
        for model in models:
            if settings.max_tokens > model.max_tokens:
                raise BmtoolsError(f"--max-tokens: found {settings.max_tokens}, but {model.name} "
                                   f"takes at most {model.max_tokens}; expected that or less")
        self._combinations = settings.combinations()
        self._settings, self._terms, self._seed = settings, terms, seed
        self._passes = passes or InferenceConfig()
        distinct = {model.vocabulary: model.tokenizer for model in models}
        self._vocabularies = {name: _Vocabulary(SequenceMasker(tokenizer, settings, terms, seed),
                                                len(self._combinations))
                              for name, tokenizer in distinct.items()}
        self._tallies = [_Totals(model, len(self._combinations), settings.repeats)
                         for model in models]
        self._groups = Groups(by)
        self._keys: list[np.ndarray] = []

    def run(self, records: Iterable[Record], reject: Reject = refuse) -> Iterator[int]:
        """Ask about all texts, some megabytes at a time; the order of texts does not matter.

        Args:
            records: titles count to the text.
            reject: receives records without a token to hide; they are kept from all models.

        Yields:
            for each pass of a model, how many places it was asked at.
        """
        variants = len(self._combinations) * self._settings.repeats
        for window in _windows(records, _TOKENS_AT_ONCE * _CHARACTERS_A_TOKEN // variants):
            yield from self._run_window(window, reject)

    def _run_window(self, window: list[Record], reject: Reject) -> Iterator[int]:
        kept, encoded = self._encoded(window, reject)
        if not kept:
            return
        keys = text_keys(kept)
        self._keys.append(keys)
        for record in kept:
            self._groups.add(record)
        for tally in self._tallies:
            tally.begin(len(kept))
        for name, vocabulary in self._vocabularies.items():
            rows = vocabulary.hider.rows(encoded[name], keys)
            vocabulary.count(rows)
            own = [tally for tally in self._tallies if tally.model.vocabulary == name]
            for part in self._variants(len(rows.ids)):
                grid = self._hidden(vocabulary, rows, part)
                for tally in own:
                    for found in answers(tally.model, grid, self._passes):
                        tally.add(found)
                        yield len(found.nats)

    def _encoded(self, window: list[Record],
                 reject: Reject) -> tuple[list[Record], dict[str, EncodedTexts]]:
        """Keep and encode the records in which every vocabulary finds something to hide."""
        hiders = {name: vocabulary.hider for name, vocabulary in self._vocabularies.items()}
        encoded = {name: hider.encode(window) for name, hider in hiders.items()}
        counts = [hider.maskable_counts(encoded[name]) for name, hider in hiders.items()]
        kept = []
        for record, least in zip(window, np.min(counts, axis=0).tolist(), strict=True):
            if least:
                kept.append(record)
            else:
                reject(RecordError(record.place, "key 'text': found no tokens to hide, "
                                                 "expected words of the models' "
                                                 "vocabularies", record))
        if len(kept) < len(window):
            encoded = {name: hider.encode(kept) for name, hider in hiders.items()}
        return kept, encoded

    def _variants(self, tokens: int) -> Iterator[list[tuple[int, int]]]:
        """Yield pairs of combination and draw, so many at a time that they fit into memory."""
        pairs = [(number, draw) for number in range(len(self._combinations))
                 for draw in range(self._settings.repeats)]
        step = max(1, _TOKENS_AT_ONCE // tokens)
        for start in range(0, len(pairs), step):
            yield pairs[start:start + step]

    def _hidden(self, vocabulary: _Vocabulary, rows: Sequences,
                pairs: Sequence[tuple[int, int]]) -> MaskedBatches:
        """Hide tokens in all rows, once for each pair of combination and draw."""
        inputs = np.empty((len(pairs), len(rows.ids)), dtype=np.int32)
        asked = np.empty(inputs.shape, dtype=bool)
        for place, (number, draw) in enumerate(pairs):
            shown, covered = vocabulary.hider.hide(rows, self._combinations[number], draw)
            vocabulary.covered[number] += covered
            inputs[place], asked[place] = shown.inputs, shown.labels >= 0
        return MaskedBatches(rows, np.array(pairs), inputs, asked)

    def lines(self, statistics: StatisticsConfig | None = None) -> Iterator[dict[str, Any]]:
        """Say the scores, a line for each model and combination.

        Yields:
            `perplexity`: exponential of `nats_per_token`, the mean loss over all places asked in
            all draws, with an `interval` over texts; `perplexity_sd`: standard deviation of the
            draws' own perplexities (the paper draws samples of text, here the text stays and
            masks are drawn anew); `accuracy`: share of places where the token stands first;
            `hidden`: places asked in all draws; `tokens`: those that might have been hidden, once;
            `hidden_share`: share hidden in a draw, which is above the rate where rows are so
            short that one token is more; `whole_words`: words wholly hidden among words with a
            hidden token; `by_fate`: the same figures by what the model sees, where a random token
            that happens to be the right one counts to `same`; `by`: for each value of a key.

        Raises:
            DataError: no text was read.
        """
        if not self._keys:
            raise DataError("no text in the input; expected records with text")
        keys = np.concatenate(self._keys)
        statistics = statistics or StatisticsConfig()
        for tally in self._tallies:
            for number in range(len(self._combinations)):
                yield self._line(tally, number, keys, statistics)

    def _line(self, tally: _Totals, number: int, keys: np.ndarray,
              statistics: StatisticsConfig) -> dict[str, Any]:
        combination = self._combinations[number]
        vocabulary = self._vocabularies[tally.model.vocabulary]
        covered, table = vocabulary.covered[number], tally.table(number)
        by: dict[str, dict[str, Any]] = {}
        for key, value, members in self._groups.members():
            by.setdefault(key, {})[value] = _scores(table[members], keys[members], statistics)
        return {
            "model": tally.model.name,
            "masking": combination.masking,
            "mask_rate": combination.mask_rate,
            "corruption": combination.corruption,
            **_scores(table, keys, statistics),
            **_spread(tally.draws(number)),
            "tokens": vocabulary.tokens,
            "rows": vocabulary.rows,
            "repeats": self._settings.repeats,
            "hidden_share": round(covered.masked_share, _DIGITS),
            "whole_words": round(covered.whole_share, _DIGITS),
            "by_fate": {fate: _figures(sums) for fate, sums in
                        zip(FATES, tally.fates(number), strict=True) if sums[_HIDDEN]},
            **({"by": by} if by else {}),
            "vocabulary": short_fingerprint(tally.model.vocabulary),
            "signature": self._signature(tally.model, combination),
        }

    def _signature(self, model: CheckpointPredictor, combination: Combination) -> str:
        settings = self._settings
        more = {}
        if combination.masking == "terms":
            listed = "\n".join(self._terms).encode()
            more["terms"] = short_fingerprint(hashlib.sha256(listed).hexdigest())
        return signature(
            "mlm", combination.masking, model.tokenizer, rate=combination.mask_rate,
            corruption=combination.corruption, repeats=settings.repeats, seed=self._seed,
            max_tokens=settings.max_tokens, segmenter=settings.segmenter, **more,
            **model.signature_fields)


class _Vocabulary:
    """What models of one vocabulary share: what is hidden, and how much that was."""

    def __init__(self, hider: SequenceMasker, combinations: int) -> None:
        self.hider = hider
        self.covered = [Coverage()] * combinations
        self.tokens = 0
        self.rows = 0

    def count(self, rows: Sequences) -> None:
        """Count rows."""
        self.tokens += int(rows.maskable.sum())
        self.rows += len(rows.texts)


class _Totals:
    """Sums of one model: nats, places asked and places right, in this order along the last axis."""

    def __init__(self, model: CheckpointPredictor, combinations: int, repeats: int) -> None:
        self.model = model
        self._totals = np.zeros((combinations, repeats, len(FATES), 3))
        self._windows: list[np.ndarray] = []

    def begin(self, texts: int) -> None:
        """Make room for the texts of a window."""
        self._windows.append(np.zeros((len(self._totals), texts, 3)))

    def add(self, found: TokenLosses) -> None:
        """Count places of the last window."""
        values = np.stack([found.nats, np.ones_like(found.nats), found.right], axis=1)
        np.add.at(self._totals, (found.combinations, found.draws, found.fates), values)
        np.add.at(self._windows[-1], (found.combinations, found.texts), values)

    def table(self, combination: int) -> np.ndarray:
        """Give the sums of each text, (texts, 3)."""
        return np.concatenate([window[combination] for window in self._windows])

    def draws(self, combination: int) -> np.ndarray:
        """Give the sums of each draw, (repeats, 3)."""
        return self._totals[combination].sum(axis=1)

    def fates(self, combination: int) -> np.ndarray:
        """Give the sums of each fate, (fates, 3)."""
        return self._totals[combination].sum(axis=0)


def _windows(records: Iterable[Record], characters: int) -> Iterator[list[Record]]:
    """Gather records until their texts have so many characters."""
    window: list[Record] = []
    held = 0
    for record in records:
        window.append(record)
        held += len(record["text"])
        if held >= characters:
            yield window
            window, held = [], 0
    if window:
        yield window


def _scores(table: np.ndarray, keys: np.ndarray,
            statistics: StatisticsConfig) -> dict[str, Any]:
    """Score some of the texts, with an interval over them.

    Args:
        table: (texts, 3) sums.
        keys: (texts,) by which texts are ordered: their numbers in the input must not matter.
        statistics: of the interval.
    """
    ordered = table[np.argsort(keys, kind="stable")]
    bounds = interval(ordered[:, _NATS], ordered[:, _HIDDEN], statistics)
    return {**_figures(ordered.sum(axis=0)),
            **({"interval": [_rounded(_exp(bound)) for bound in bounds]} if bounds else {}),
            "records": len(table)}


def _spread(draws: np.ndarray) -> dict[str, float]:
    """Give the standard deviation of perplexity over draws, (repeats, 3), if it can be told."""
    found = [_exp(nats / hidden) for nats, hidden, _ in draws.tolist()]
    if len(found) < 2 or math.inf in found:
        return {}
    return {"perplexity_sd": _rounded(stdev(found))}


def _figures(sums: np.ndarray) -> dict[str, Any]:
    nats, hidden, right = sums.tolist()
    return {"perplexity": _rounded(_exp(nats / hidden)),
            "nats_per_token": _rounded(nats / hidden),
            "accuracy": _rounded(right / hidden), "hidden": int(hidden)}


def _rounded(value: float) -> float:
    return round(value, _DIGITS)


def _exp(nats: float) -> float:
    """Exponentiate a loss; beyond the range of numbers it is infinite, not an error."""
    return math.exp(nats) if nats < 700 else math.inf
