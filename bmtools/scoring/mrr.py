"""Mean reciprocal rank: how high models rank the masked words.

Source: Buonocore et al. 2023, equation 2.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.io.jsonl import as_records
from bmtools.records import MASK, RecordSource
from bmtools.scoring.checkpoint_predictor import load_predictors
from bmtools.scoring.cloze import make_clozes
from bmtools.scoring.evaluation import ModelTotals, Progress, collect_scores, last_keys
from bmtools.scoring.mrr_ranking import BEAM_SIZE, MaskScore, check_text, score_masked_words
from bmtools.scoring.predictor import Predictor, count_frequencies
from bmtools.scoring.settings import InferenceConfig, Models, MrrConfig
from bmtools.settings import split_settings
from bmtools.statistics.lines import DIGITS, NO_VALUE, Line, content_key, data_fields
from bmtools.statistics.ratios import Metric, interval, with_unit
from bmtools.statistics.settings import StatisticsConfig
from bmtools.text.case_folding import CASELESS
from bmtools.text.word_lists import read_word_list

_HITS = (1, 5, 10)


def mrr(records: RecordSource, models: Models, *, terms: str | None = None,
        baseline: str | None = None, by: Sequence[str] = (), details: str | None = None,
        reject: Reject = refuse, skipped: Counter[str] | None = None,
        progress: Progress[MaskScore] = iter,
        on_score: Callable[[MaskScore], object] | None = None, **settings: object) -> list[Line]:
    """Score checkpoints by mean reciprocal rank: `mrr("curated.jsonl", ["base", "bio"], top_k=5)`.

    Args:
        records: one or several files, or dictionaries with `id`, `text` and, if the text contains
            `[MASK]`, the masked word as `target`. In other texts, each word of `entities` and of
            `terms` is masked once.
        models: directories of one or several checkpoints.
        terms: file of terms to mask, one per line.
        baseline: file of records whose token frequencies are also scored.
        by: keys of records; maskings are also scored separately for each value of a key, by
            default `domain`. Dots reach into objects: `meta.year`. `sentence` is the full text,
            unless records have a key with this name.
        details: file that receives a line for each masking and model.
        reject: receives records that a model cannot read; no model scores them.
        skipped: counts records and entities without a masked word, by reason.
        progress: wraps the iterator of scores, like `tqdm`.
        on_score: called with the score of each masking and model.
        settings: fields of `MrrConfig`, `InferenceConfig` and `StatisticsConfig`.

    Returns:
        a line for each model and baseline, see `MrrTotals.line`; then a line for each pair of
        models, see `compare_models`.

    Raises:
        BmtoolsError: if there are no records to score, or a checkpoint, device or record cannot be
            used.
        ValueError: if a setting is out of range.
    """
    config, inference, statistics = split_settings(
        settings, MrrConfig, InferenceConfig, StatisticsConfig)
    term_list = read_word_list(terms, CASELESS) if terms is not None else None
    predictors: list[Predictor] = [*load_predictors(models, inference)]
    if baseline is not None:
        predictors += count_frequencies(baseline, predictors, reject)
    clozes = make_clozes(with_unit(as_records(records, reject), statistics.unit, reject),
                         term_list, reject, skipped, partial(check_text, predictors))
    scores = score_masked_words(clozes, predictors, config, reject)
    totals = [MrrTotals(predictor, config, by, statistics) for predictor in predictors]
    return collect_scores(scores, totals, statistics, details, progress, on_score)


class MrrTotals(ModelTotals[MaskScore]):
    """Corpus-level mean reciprocal rank of one predictor.

    Intervals are over documents, or over sentences if maskings name no document, because maskings
    of one sentence share its text. About fifty bytes are kept in memory for each masking.

    Args:
        predictor: the predictor.
        config: settings of the scores.
        by: keys of records; maskings are also scored separately for each value of a key, by
            default `domain` if records have it.
        statistics: settings of intervals.
    """

    def __init__(self, predictor: Predictor, config: MrrConfig, by: Sequence[str] = (),
                 statistics: StatisticsConfig | None = None) -> None:
        super().__init__(predictor, by or ("domain",), statistics, "sentence")
        self.config = config
        self._by = by
        self._sentences = array("Q")
        self._multi_token = self._unknown = 0

    def add(self, score: MaskScore) -> None:
        """Count a masked word; words with several tokens count according to the settings."""
        target, record = score.target, score.record
        self._unknown_tokens.add(target.masked.input_ids, record)
        # The full text identifies the sentence that a masking belongs to.
        sentence = str(record["text"]).replace(MASK, record["target"])
        self._multi_token += target.multi_token
        self._unknown += not (target.correct_ids or target.multi_token)
        rank = np.nan if score.rank is None else score.rank
        self._values.extend((score.reciprocal_rank, rank, score.probability))
        self._sentences.append(content_key(sentence))
        self.units.add(record, sentence)
        if not np.isnan(score.reciprocal_rank):
            place = str(record["text"].index(MASK))
            self._data += content_key(str(self._sentences[-1]), place, record["target"])
        self._groups.add({"sentence": sentence, **record})

    def metrics(self, members: np.ndarray | slice = slice(None)) -> dict[str, Metric]:
        """Return the metric of some maskings that is used to compare models."""
        found = self._table()[members, 0]  # NaN for maskings that are left out
        return {"mrr": Metric(np.array([np.nan_to_num(found), ~np.isnan(found)]),
                              self.units.keys[members], items="maskings",
                              unit=self.units.kind)}

    def line(self) -> Line:
        """Return the scores, counts and the signature.

        Returns:
            `mrr` is equation 2, with an `interval` over `units`, whose kind is `unit` (a document,
            or a sentence if records name no document). `hits_at_1`, `hits_at_5` and `hits_at_10`
            are the shares of maskings whose word is ranked first, or among the first five or ten.
            `median_rank` is null if half of the words have no rank. `mean_rank` is null if any word
            has no rank, because the mean over the others favours vocabularies with few ranked
            words. `ranked` is the number of maskings whose word has a rank, and `probability` is
            the word's mean probability. `maskings` and `sentences` count maskings and their
            distinct texts. `multi_token` and `unknown` count words with several tokens, and words
            that the vocabulary does not contain. `unknown_tokens` is the share of unknown tokens in
            the text. `by` contains the same for each value of a key.

        Raises:
            DataError: if no masking was counted, or no record has a key of `by`.
        """
        self._unknown_tokens.warn()
        config, scores = self.config, self._scores()
        if not scores:
            raise DataError(
                f"all {self._multi_token} masked words have several tokens in "
                f"{self.predictor.name}; use {setting('multi_token')} miss to count them"
                if self._multi_token else
                "no masked words in the input; expected records with text and target")
        by = self._groups.scores(self._scores)
        for key in [key for key, values in by.items() if set(values) == {NO_VALUE}]:
            if self._by:
                raise DataError(f"{setting('by')}: found {key!r}, which no record has, expected a "
                                "key of the records")
            del by[key]
        return {
            "model": self.predictor.name,
            **scores,
            "unit": self.units.kind,
            "multi_token": self._multi_token,
            "unknown": self._unknown,
            "unknown_tokens": round(self._unknown_tokens.share, DIGITS),
            **last_keys(self.predictor, by, data_fields(self._data), "mrr", f"top{config.top_k}",
                        multi_token=config.multi_token, proposals="all", ties="lower-id",
                        match="caseless" if config.ignore_case or config.like else "exact",
                        beam=max(BEAM_SIZE, config.top_k)
                        if config.multi_token == "joint" else None,
                        like=config.like, punctuation="dropped" if config.like else None),
        }

    def _table(self) -> np.ndarray:
        """View reciprocal rank, rank and probability of each masking, (maskings, 3)."""
        return np.frombuffer(self._values).reshape(-1, 3)

    def _scores(self, members: np.ndarray | slice = slice(None)) -> Line:
        """Score some of the maskings; return an empty line if no masking counts."""
        metric = self.metrics(members)["mrr"]
        table = self._table()[members][metric.counted]
        if not len(table):
            return {}
        sums = metric.by_unit()
        # If all or no words are ranked first, resamples agree and the interval has no width.
        bounds = interval(sums, self._statistics) if 0 < metric.value < 1 else None
        ranks, ranked = table[:, 1], ~np.isnan(table[:, 1])
        median = float(np.median(np.where(ranked, ranks, np.inf)))
        scores = {
            "mrr": metric.value,
            **({"interval": bounds} if bounds else {}),
            **{f"hits_at_{most}": (ranks <= most).mean() for most in _HITS},
            "median_rank": median if np.isfinite(median) else None,
            "mean_rank": ranks.mean() if ranked.all() else None,
            "ranked": int(ranked.sum()),
            "probability": table[:, 2].mean(),
            "maskings": len(table),
            "sentences": len(np.unique(np.frombuffer(self._sentences, np.uint64)[members][
                metric.counted])),
            "units": sums.shape[1],
        }
        return {name: value if value is None or isinstance(value, int)
                else np.round(value, DIGITS).tolist() for name, value in scores.items()}
