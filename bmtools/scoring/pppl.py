"""Pseudo-perplexity: how surprising each token is to a model, given all other tokens.

Sources: Salazar et al. 2020, equations 2 and 3; Kauf and Ivanova 2023; Buonocore et al. 2023,
equation 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from bmtools.errors import BmtoolsWarning, DataError, Reject, refuse
from bmtools.io.jsonl import as_records
from bmtools.records import RecordSource
from bmtools.scoring.checkpoint_predictor import load_predictors
from bmtools.scoring.evaluation import ModelTotals, Progress, collect_scores, last_keys, text_fields
from bmtools.scoring.pppl_sentences import SentenceScore, score_sentences
from bmtools.scoring.predictor import Predictor, count_frequencies
from bmtools.scoring.settings import InferenceConfig, Models, PpplConfig
from bmtools.settings import split_settings
from bmtools.statistics.lines import Line, content_key, data_fields, rounded, safe_exp
from bmtools.statistics.ratios import Metric, interval, with_unit
from bmtools.statistics.settings import StatisticsConfig

_COLUMNS = ("nats", "scored", "tokens", "characters", "words", "unknown", "spelling", "pppl")


def pppl(records: RecordSource, models: Models, *,
         baseline: str | None = None, by: Sequence[str] = (), details: str | None = None,
         reject: Reject = refuse, progress: Progress[SentenceScore] = iter,
         **settings: object) -> list[Line]:
    """Score checkpoints by pseudo-perplexity: `pppl("dev.jsonl", ["base", "bio"])`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`.
        models: directories of one or several checkpoints.
        baseline: file of records whose token frequencies are also scored.
        by: keys of records; sentences are also scored separately for each value of a key. Dots
            reach into objects: `meta.year`.
        details: file that receives a line for each sentence and model.
        reject: receives records that a model cannot read; no model scores them.
        progress: wraps the iterator of scores, like `tqdm`.
        settings: fields of `PpplConfig`, `InferenceConfig` and `StatisticsConfig`.

    Returns:
        a line for each model and baseline, see `PpplTotals.line`; then a line for each pair of
        models, see `compare_models`.

    Raises:
        BmtoolsError: if there are no records to score, or a checkpoint, device or record cannot be
            used.
        ValueError: if a setting is out of range.
    """
    config, inference, statistics = split_settings(
        settings, PpplConfig, InferenceConfig, StatisticsConfig)
    predictors: list[Predictor] = [*load_predictors(models, inference)]
    _warn_of_other_texts(predictors)
    if baseline is not None:
        predictors += count_frequencies(baseline, predictors, reject)
    scores = score_sentences(with_unit(as_records(records, reject), statistics.unit, reject),
                             predictors, config, reject)
    totals = [PpplTotals(predictor, config, by, statistics) for predictor in predictors]
    return collect_scores(scores, totals, statistics, details, progress)


def _warn_of_other_texts(predictors: Sequence[Predictor]) -> None:
    """Warn if bits per character cannot be compared."""
    read = {predictor.name: ", ".join(
        f"{name} {done}" for name, done in text_fields(predictor.tokenizer).items())
        for predictor in predictors}
    if len(set(read.values())) > 1:
        models = "; ".join(f"{name}: {text}" for name, text in read.items())
        warnings.warn(f"bits per character are not compared, because the models do not read the "
                      f"same text ({models})", BmtoolsWarning, stacklevel=3)


class PpplTotals(ModelTotals[SentenceScore]):
    """Corpus-level pseudo-perplexity of one predictor.

    About seventy bytes are kept in memory for each sentence to resample them by unit.

    Args:
        predictor: the predictor.
        config: settings of the scores.
        by: keys of records; sentences are also scored separately for each value of a key.
        statistics: settings of intervals.
    """

    def __init__(self, predictor: Predictor, config: PpplConfig | None = None,
                 by: Sequence[str] = (), statistics: StatisticsConfig | None = None) -> None:
        super().__init__(predictor, by, statistics)
        self.config = config or PpplConfig()

    def add(self, score: SentenceScore) -> None:
        """Count a sentence."""
        nats = -score.logprobs
        self._unknown_tokens.add_counts(score.unknown, score.tokens, score.record)
        self._values.extend((nats.sum(), len(nats), score.tokens, len(score.record["text"]),
                             len(score.record["text"].split()), score.unknown,
                             score.spelling_nats, score.pppl))
        self.units.add(score.record, str(score.record.get("id")), score.record["text"])
        if len(nats) or not self.config.like:
            self._data += content_key(score.record["text"])
        self._groups.add(score.record)

    def metrics(self, members: np.ndarray | slice = slice(None)) -> dict[str, Metric]:
        """Return the metrics of some sentences that are used to compare models.

        Under `like` these include the mean over sentences, and sentences that were left out do not
        count. Bits include the spelling of unknown tokens. Bits of models that fold case or accents
        are not compared with other models, because these models predict less text.
        """
        sums = self._sums(members)
        keys, unit = self.units.keys[members], self.units.kind
        vocabulary, counts = self.predictor.vocabulary, np.ones(len(sums))
        if self.config.like:
            counts = (sums.scored > 0).astype(float)
        bits = [(sums.nats + sums.spelling) / math.log(2), sums.characters * counts]
        text = ", ".join(text_fields(self.predictor.tokenizer).values())
        metrics = {"bits_per_character": Metric(np.array(bits), keys, text, unit=unit),
                   "nats_per_token": Metric(np.array([sums.nats, sums.scored]), keys, vocabulary,
                                            unit=unit)}
        if self.config.like:
            values = np.where(counts > 0, sums.pppl, 0)
            metrics["pppl"] = Metric(np.array([values, counts]), keys, vocabulary, unit=unit)
        return metrics

    def line(self) -> Line:
        """Return the scores, counts and the signature.

        Returns:
            `pppl` is equation 1, where every token has the same weight, with an `interval` over
            `units`, whose kind is `unit`. `mean_sentence_pppl` is the mean over sentences, as in
            the evaluation that Buonocore et al. published; one unusual sentence can dominate it.
            Under `like="biobit"`, `pppl` is this mean. `nats_per_token` is the mean loss.
            `bits_per_character` and `bits_per_word` are the same loss per character and per word
            between white space. They compare models with different vocabularies, because unknown
            tokens and text that the tokenizer drops are spelled out (see `encode_sentence`).
            `unknown_bits_per_character` is the part for this spelling, if any. `by` contains the
            same for each value of a key.

        Raises:
            DataError: if no sentence was counted.
        """
        config, sums = self.config, self._sums()
        if not len(sums.nats):
            raise DataError("no sentences in the input; expected records with text")
        if not sums.scored.any():
            raise DataError(f"found {len(sums.nats)} sentences, which are all too long; expected "
                            "shorter ones")
        self._unknown_tokens.warn()
        by = self._groups.scores(self._scores)
        left_out = int((sums.scored == 0).sum()) if config.like else 0
        return {
            "model": self.predictor.name,
            **self._scores(slice(None)),
            "unit": self.units.kind,
            **({"left_out": left_out} if left_out else {}),
            **last_keys(self.predictor, by, data_fields(self._data), "pppl", config.variant,
                        unit="token", special=False, unknown="utf-8", like=config.like),
        }

    def _sums(self, members: np.ndarray | slice = slice(None)) -> np.recarray:
        """View the sums of some sentences as named columns, (sentences,) each."""
        return np.frombuffer(self._values).view([(name, "f8") for name in _COLUMNS])[members].view(
            np.recarray)

    def _scores(self, members: np.ndarray | slice) -> Line:
        """Score some of the sentences."""
        sums, metrics = self._sums(members), self.metrics(members)
        kept = sums[sums.scored > 0] if self.config.like else sums
        if not kept.scored.any():
            return {"pppl": None, "sentences": len(kept), "tokens": int(kept.tokens.sum())}
        bits, nats = metrics["bits_per_character"].value, metrics["nats_per_token"].value
        unknown = bits * kept.spelling.sum() / (kept.nats + kept.spelling).sum() \
            if kept.spelling.any() else 0
        mean = float(kept.pppl.mean())
        by_unit = metrics["pppl" if self.config.like else "nats_per_token"].by_unit()
        bounds = interval(by_unit, self._statistics)
        if not self.config.like:
            bounds = bounds and (safe_exp(bounds[0]), safe_exp(bounds[1]))
        return {
            "pppl": rounded(mean if self.config.like else safe_exp(nats)),
            **({"interval": [rounded(bound) for bound in bounds]} if bounds else {}),
            "mean_sentence_pppl": rounded(mean),
            "nats_per_token": rounded(nats),
            "bits_per_character": rounded(bits),
            **({"unknown_bits_per_character": rounded(unknown)} if unknown else {}),
            "bits_per_word": rounded(bits * kept.characters.sum() / max(kept.words.sum(), 1)),
            "sentences": len(kept),
            **{name: int(kept[name].sum())
               for name in ("tokens", "characters", "words", "unknown")},
            "units": by_unit.shape[1],
        }
