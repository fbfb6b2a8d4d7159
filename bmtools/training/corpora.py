"""The texts of a run: records encoded once, or shards made beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelerate import Accelerator

from bmtools.corpus.settings import ShardSettings
from bmtools.corpus.shards import Corpus, is_shards
from bmtools.errors import BmtoolsError, CheckpointError, DataError, Reject
from bmtools.io.streams import RecordReader, read_lines
from bmtools.masking.strategies import Pick, make_pick
from bmtools.masking.terms import TermList, spellings
from bmtools.training.plan import REPLAY, Plan
from bmtools.training.start import Start
from bmtools.training.state import runs_directory
from bmtools.training.tokenize import open_corpus, tokenize

Names = Mapping[str, tuple[str, ...]]
"""Files of each text, by the text's name."""


@dataclass(frozen=True)
class Wanted:
    """The texts that a run asks for.

    Args:
        trained: files of each text to train on, by its name.
        others: files of the texts to replay, to evaluate and to retain.
        lang: language of records that name none, where sentences are needed.
        segmenter: what finds words.
        terms: words and phrases for masking by terms.
    """

    trained: Names
    others: Names = field(default_factory=dict)
    lang: str = ""
    segmenter: str = ShardSettings.segmenter
    terms: Path | None = None


@dataclass(frozen=True)
class Texts:
    """What a run reads.

    Args:
        trained: corpora by name.
        others: texts to replay, to evaluate and to retain.
        hashes: of each input's content, by name.
        strategies: what hides words, by name.
    """

    trained: Mapping[str, Corpus]
    others: Mapping[str, Corpus]
    hashes: Mapping[str, str]
    strategies: Mapping[str, Pick]


def open_texts(plan: Plan, wanted: Wanted, start: Start, reject: Reject,
               accelerator: Accelerator) -> Texts:
    """Encode records to shards beside the output, once, or map shards made beforehand.

    The first process encodes, on as many cores as there are; the others wait for it.

    Raises:
        CheckpointError: shards of another vocabulary, or without sentences where pairs need them.
        DataError: no text, or terms that cannot be read.
    """
    pairs = any(phase.task.objective == "masked+nsp" for phase in plan.script.phases)
    opened = {}
    for name, names in {**wanted.trained, **wanted.others}.items():
        split = pairs and name in (*wanted.trained, REPLAY)
        settings = ShardSettings(split, wanted.lang, wanted.segmenter)
        opened[name] = _open(plan, name, names, start, settings, reject, accelerator)
    hashes = {key: value for corpus in opened.values() for key, value in corpus.inputs.items()}
    return Texts({name: opened[name] for name in wanted.trained},
                 {name: opened[name] for name in wanted.others}, hashes,
                 _strategies(plan, start, wanted.terms))


def _open(plan: Plan, name: str, names: tuple[str, ...], start: Start,
          settings: ShardSettings, reject: Reject, accelerator: Accelerator) -> Corpus:
    paths = [Path(given) for given in names]
    if all(is_shards(path) for path in paths):
        corpus = open_corpus(paths, start.vocabulary)
        if settings.sentences and not corpus.has_sentences:
            raise CheckpointError(f"{paths[0]}: the shards do not say where sentences begin, which "
                                  "pairs need; make them with bmtools tokenize --sentences")
        return corpus
    for path in paths:
        if path.is_dir():
            raise CheckpointError(f"{path}: found a directory without shards, expected files of "
                                  "records or what bmtools tokenize wrote")
    target = runs_directory(plan.output) / f"text-{name}"
    if accelerator.is_main_process:
        tokenize(RecordReader(names, reject), start.tokenizer, target,
                 settings, processes=0, resume=plan.resume, overwrite=not plan.resume)
    accelerator.wait_for_everyone()
    return open_corpus([target], start.vocabulary)


def _strategies(plan: Plan, start: Start, terms: Path | None) -> dict[str, Pick]:
    """Make what the phases hide by, and whole words, which held-out text is hidden by."""
    names = {phase.task.masking for phase in plan.script.phases} | {"words"}
    listed = None
    if terms is not None:
        words = [line.strip() for _, line in read_lines(str(terms)) if line.strip()]
        if not words:
            raise DataError(f"{terms}: found no terms, expected one a line")
        listed = TermList(spellings(start.tokenizer, words))
    try:
        return {name: make_pick(name, terms=listed) for name in sorted(names)}
    except ValueError as error:
        raise BmtoolsError(str(error)) from None
