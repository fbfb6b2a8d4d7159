"""The texts of a run: records encoded once, or shards made beforehand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelerate import Accelerator

from bmtools.data.settings import ShardConfig
from bmtools.data.shards import Corpus, is_shards
from bmtools.data.tokenize import open_corpus, tokenize
from bmtools.errors import BmtoolsError, CheckpointError, DataError, RecordError, Reject
from bmtools.io.jsonl import RecordReader, read_list
from bmtools.masking.strategies import MaskStrategy, make_strategy
from bmtools.masking.terms import TermList, spellings
from bmtools.training.model_init import InitialModel
from bmtools.training.plan import REPLAY, TrainingPlan
from bmtools.training.run_directories import runs_directory

Names = Mapping[str, tuple[str, ...]]
"""Files of each text, by the text's name."""
_PAIRS = "masked+nsp"


@dataclass(frozen=True)
class DataConfig:
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
    segmenter: str = ShardConfig.segmenter
    terms: Path | None = None


@dataclass(frozen=True)
class Datasets:
    """What a run reads.

    Args:
        trained: corpora by name.
        others: texts to replay, to evaluate and to retain.
        strategies: what hides words, by name.
        terms: hash of the list of terms, if there is one.
    """

    trained: Mapping[str, Corpus]
    others: Mapping[str, Corpus]
    strategies: Mapping[str, MaskStrategy]
    terms: str = ""

    @property
    def hashes(self) -> dict[str, str]:
        """Hash of each file's content, by its name."""
        return {file: digest for corpus in (*self.trained.values(), *self.others.values())
                for file, digest in corpus.inputs.items()}

    def contents(self) -> dict[str, list[str]]:
        """Hashes of what each text was read from, by the text's name."""
        found = {name: [*corpus.inputs.values()]
                 for name, corpus in {**self.trained, **self.others}.items()}
        return {**found, **({"terms": [self.terms]} if self.terms else {})}


def open_datasets(plan: TrainingPlan, wanted: DataConfig, start: InitialModel, reject: Reject,
                  accelerator: Accelerator) -> Datasets:
    """Encode records to shards beside the output, once, or map shards made beforehand.

    The first process encodes, on as many cores as there are; the others wait for it. What takes
    no time comes first, so that its faults are not found after hours.

    Raises:
        CheckpointError: shards of another vocabulary, or without sentences where pairs need them.
        DataError: no text, or terms that cannot be read.
    """
    strategies, terms = _strategies(plan, start, wanted.terms)
    opener = _Opener(plan, start, wanted, reject, accelerator)
    names = {**wanted.others, **wanted.trained}
    opened = {name: opener.map(name, files) for name, files in names.items()
              if any(is_shards(Path(file)) for file in files)}
    opened |= {name: opener.encode(name, files) for name, files in names.items()
               if name not in opened}
    return Datasets({name: opened[name] for name in wanted.trained},
                    {name: opened[name] for name in wanted.others}, strategies, terms)


@dataclass(frozen=True)
class _Opener:
    """Opens texts for one run."""

    plan: TrainingPlan
    start: InitialModel
    wanted: DataConfig
    reject: Reject
    accelerator: Accelerator

    def _needs_sentences(self, name: str) -> bool:
        paired = any(phase.objective.objective == _PAIRS for phase in self.plan.config.phases)
        return paired and name in (*self.wanted.trained, REPLAY)

    def map(self, name: str, files: tuple[str, ...]) -> Corpus:
        """Map directories of shards."""
        paths = [Path(file) for file in files]
        for path in paths:
            if not is_shards(path):
                raise CheckpointError(f"{path}: found it beside a directory of shards, expected "
                                      "shards alone or records alone; bmtools tokenize makes "
                                      "shards of records")
        corpus = open_corpus(paths, self.start.vocabulary)
        if self._needs_sentences(name) and not corpus.has_sentences:
            raise CheckpointError(f"{paths[0]}: the shards do not say where sentences begin, which "
                                  "pairs need; make them with bmtools tokenize --sentences")
        return corpus

    def encode(self, name: str, files: tuple[str, ...]) -> Corpus:
        """Encode records in the first process, and map what it wrote."""
        for file in files:
            if Path(file).is_dir():
                raise CheckpointError(f"{file}: found a directory without shards, expected files "
                                      "of records or what bmtools tokenize wrote")
        target = runs_directory(self.plan.output) / f"text-{name}"
        if self.accelerator.is_main_process:
            settings = ShardConfig(self._needs_sentences(name), self.wanted.lang,
                                   self.wanted.segmenter)
            try:
                tokenize(RecordReader(files, self.reject), self.start.tokenizer, target, settings,
                         processes=0, resume=self.plan.resume, overwrite=not self.plan.resume)
            except DataError as error:
                if isinstance(error, RecordError) or name not in self.wanted.others:
                    raise
                raise DataError(f"--{name}: {error}") from error
        self.accelerator.wait_for_everyone()
        return open_corpus([target], self.start.vocabulary)


def _strategies(plan: TrainingPlan, start: InitialModel,
                terms: Path | None) -> tuple[dict[str, MaskStrategy], str]:
    """Make what the phases hide by, and whole words, which held-out text is hidden by.

    Returns:
        them by name, and the hash of the terms.
    """
    names = {phase.objective.masking for phase in plan.config.phases} | {"words"}
    listed, digest = None, ""
    if terms is not None:
        words = [word for _, word in read_list(str(terms))]
        listed = TermList(spellings(start.tokenizer, words))
        digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
    try:
        return {name: make_strategy(name, terms=listed) for name in sorted(names)}, digest
    except ValueError as error:
        raise BmtoolsError(str(error)) from None
