"""Datasets of a run: encoded records, or shards made before."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from accelerate import Accelerator

from bmtools.data.masking.strategies import MaskStrategy, TermList, make_strategy, spellings
from bmtools.data.settings import ShardConfig
from bmtools.data.shards import Corpus
from bmtools.data.tokenize import tokenize
from bmtools.errors import CheckpointError, DataError, RecordError, Reject, setting
from bmtools.io.jsonl import RecordReader
from bmtools.io.provenance.licence_check import check_licences, warn_of_no_derivatives
from bmtools.io.sources import read_list
from bmtools.status import counted
from bmtools.training.checks import check_corpus_files, parent_licences
from bmtools.training.distributed import others_wait, require_shared
from bmtools.training.plan import REPLAY, DataConfig, TrainingPlan, runs_directory
from bmtools.vocab.tokenizer import require_same_vocabulary

if TYPE_CHECKING:
    from bmtools.training.model_init import InitialModel

_TEXT = "text-"  # prefix of directories of encoded records


@dataclass(frozen=True)
class Datasets:
    """Corpora and masking strategies of a run.

    Args:
        train: corpora to train on, by name.
        auxiliary: corpora named after their use: replay, evaluate and retain.
        strategies: masking strategies by name.
        contents: hashes of each corpus's inputs by its name, and of the list of terms.
    """

    train: Mapping[str, Corpus]
    auxiliary: Mapping[str, Corpus]
    strategies: Mapping[str, MaskStrategy]
    contents: Mapping[str, list[str]]

    def licences(self) -> list[str]:
        """Return the licences of all text to train on; "" stands for text without a licence."""
        corpora = [*self.train.values(), *filter(None, [self.auxiliary.get(REPLAY)])]
        return sorted({one for corpus in corpora for one in corpus.origins.get("licences", ())})


def open_datasets(plan: TrainingPlan, data: DataConfig, initial: InitialModel, reject: Reject,
                  accelerator: Accelerator) -> Datasets:
    """Open existing shards, and encode records to shards next to the output.

    The main process encodes on all cores, and the others wait for it. Fast checks run first, so
    that their errors do not appear after hours.

    Raises:
        CheckpointError: shards have another vocabulary, or no sentence boundaries for sentence
            pairs. BmtoolsError: processes on several machines do not share the directory of the
            run. DataError: there is no text, or only one document for next-sentence prediction, or
            terms cannot be read.
    """
    names = {phase.objective.masking for phase in plan.config.phases}
    words = [word for _, word in read_list(str(data.terms))] if data.terms else []
    terms = TermList(spellings(initial.tokenizer, words)) if words else None
    # Held-out text is masked with the strategy "words".
    strategies: dict[str, MaskStrategy] = {
        name: make_strategy(name, terms=terms) for name in sorted({"words", *names})}
    corpora: dict[str, Corpus] = {}
    files_of = {**data.auxiliary, **data.train}
    paired = any(phase.objective.pair_term for phase in plan.config.phases)
    sentences = {name for name in files_of if paired and name in (*data.train, REPLAY)}
    for name, files in files_of.items():
        if check_corpus_files(paths := [*map(Path, files)]):
            corpora[name] = _open_shards(paths, initial.vocabulary, name in sentences)
    if plan.resume or len(corpora) < len(files_of):
        require_shared(runs_directory(plan.output), accelerator)
    for name, files in files_of.items():
        if name not in corpora:
            target = runs_directory(plan.output) / f"{_TEXT}{name}"
            with others_wait(accelerator):
                if accelerator.is_main_process:
                    settings = ShardConfig(name in sentences, data.lang, data.segmenter)
                    _encode(files, initial, target, settings, plan.resume, reject,
                            name if name in data.auxiliary else "")
            corpora[name] = _open_shards([target], initial.vocabulary)
    if any(phase.objective.pair_term == "nsp" for phase in plan.config.phases):
        for name in sentences:
            if len(corpora[name]) < 2:
                raise DataError(
                    f"{', '.join(files_of[name])}: found 1 document, expected 2 or more, "
                    "because next-sentence prediction uses segments of other documents; write "
                    f"each document as a record, or set {setting('objective')} masked+sop")
    origins = {", ".join(files): corpora[name].origins.get("licences", ())
               for name, files in files_of.items() if name in (REPLAY, *data.train)}
    check_licences({**parent_licences(plan), **origins})
    if accelerator.is_main_process:
        warn_of_no_derivatives(origins)
    contents = {name: [*corpora[name].inputs.values()] for name in (*data.train, *data.auxiliary)}
    if words:
        contents["terms"] = [hashlib.sha256("\n".join(words).encode()).hexdigest()]
    return Datasets({name: corpora[name] for name in data.train},
                    {name: corpora[name] for name in data.auxiliary}, strategies, contents)


def _open_shards(paths: list[Path], vocabulary: str, needs_sentences: bool = False) -> Corpus:
    corpus = Corpus.open(*paths)
    require_same_vocabulary(corpus.vocabulary, vocabulary, str(paths[0]))
    if needs_sentences and not corpus.has_sentences:
        raise CheckpointError(f"{paths[0]}: the shards have no sentence boundaries, which sentence "
                              "pairs need; make them with bmtools tokenize --sentences")
    return corpus


def _encode(files: tuple[str, ...], initial: InitialModel, target: Path, settings: ShardConfig,
            resume: bool, reject: Reject, role: str) -> None:
    """Encode records to shards; messages name the setting `role`."""
    try:
        name = target.name.removeprefix(_TEXT)
        tokenize(RecordReader(files, reject), initial.tokenizer, target, settings, processes=0,
                 resume=resume, overwrite=not resume,
                 watch=partial(counted, activity=f"encoding {name}", unit="megabytes"))
    except DataError as error:
        if isinstance(error, RecordError) or not role:
            raise
        raise DataError(f"{setting(role)}: {error}") from error
