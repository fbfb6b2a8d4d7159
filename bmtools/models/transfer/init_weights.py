"""Initialization of a checkpoint with a new vocabulary: known tokens keep their weights."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from bmtools.errors import DataError, RecordError, Reject, refuse, setting
from bmtools.io.directories import refuse_existing
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.step import Step
from bmtools.models.architectures import (
    build_model,
    position_embeddings,
    set_vocabulary,
    token_embeddings,
)
from bmtools.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bmtools.models.checkpoint_files import check_base, is_decoder
from bmtools.models.families import first_position
from bmtools.models.hardware import resolve_device
from bmtools.models.next_sentence import join_head, read_head
from bmtools.models.settings import READING_METHODS, FocusConfig, TransferConfig
from bmtools.models.transfer.context_embeddings import (
    Sentence,
    check_layers,
    contextual_embeddings,
    locate_pieces,
    pieces_alone,
    sample_sentences,
)
from bmtools.models.transfer.decoders import load_decoder
from bmtools.models.transfer.focus import focus_embeddings
from bmtools.models.transfer.growth import grow, grow_head, grown_config
from bmtools.models.transfer.plan import copied, fill
from bmtools.models.transfer.vocab_overlap import VocabOverlap, WeightedRows, find_overlap
from bmtools.records import JsonObject, Record, readable, span_faults
from bmtools.settings import split_settings
from bmtools.status import set_status
from bmtools.text.segment import sentence_spans
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint


@dataclass(frozen=True)
class Transfer:
    """A model with its new vocabulary.

    Args:
        model: the complete model.
        overlap: overlap of the old and the new vocabulary.
        report: numbers of tokens by the source of their embedding, and mean norms of embeddings.
    """

    model: PreTrainedModel
    overlap: VocabOverlap
    report: JsonObject


class _Target(TypedDict):
    word: str
    start: int
    end: int


class _Targets(TypedDict):
    targets: list[_Target]


def init_weights(base: str | Path, tokenizer: str | Path | None = None,
                 records: str | PathLike[str] | Iterable[object] = (),
                 output: str | Path | None = None, *, lang: str = "en", overwrite: bool = False,
                 step: Step | None = None,
                 reject: Reject = refuse,
                 progress: Callable[[Iterable[Record]], Iterable[Record]] = iter,
                 **settings: Any) -> Transfer:
    """Give a checkpoint a new vocabulary, a larger size or both.

    Embeddings of new tokens are initialized. A decoder becomes an encoder (`load_decoder`).

    Args:
        base: checkpoint whose weights are kept.
        tokenizer: directory of the new vocabulary; None keeps the base's vocabulary.
        records: the corpus (files, records or dictionaries), read only by methods contextual and
            focus. Records with the key "targets", the output of find-contexts, are sentences with
            the words to use. For a `RecordReader`, hashes of its files are recorded.
        output: checkpoint directory to write; None for no output.
        lang: language of records without one, for splitting sentences.
        overwrite: replace the content of the output directory.
        step: the running command, if any.
        reject: receives records with unusable targets; by default the first one raises.
        progress: passes records on, to show progress.
        settings: settings of `TransferConfig` or `FocusConfig`, by name, such as `method="focus",
            focus_window=3`.

    Returns:
        the model, and `report`. It contains `parameters` and, for a new vocabulary, the total
        `tokens`, tokens by the source of their embedding (`copied`, `folded`, `contextual`,
        `focus`, `averaged`, `random`), `sentences` read, and mean norms of old and new embeddings
        (`old_norm`, `new_norm`).

    Raises:
        BmtoolsError: a checkpoint, tokenizer, layer or record cannot be used, there are no
            sentences, or the output directory is not empty. ValueError: a setting is unknown, or a
            value is of the wrong type or out of range.
    """
    config, focus = split_settings(settings, TransferConfig, FocusConfig)
    if output is not None:
        refuse_existing(Path(output), overwrite)
    started = time.monotonic()
    check_base(Path(base))
    checkpoint = (load_decoder if is_decoder(Path(base)) else load_checkpoint)(Path(base))
    if config.grow:
        grown_config(checkpoint.model.config, config.grow)  # raises before anything is read
    model, new, report = checkpoint.model, checkpoint.tokenizer, JsonObject()
    overlap = VocabOverlap({}, {}, {})
    if tokenizer is not None:
        new, sentences = load_tokenizer(Path(tokenizer)), iter(list[Sentence]())
        if config.method in READING_METHODS:
            sentences = split_sentences(progress(as_records(records, reject)), lang, reject)
        transferred = transfer(checkpoint, new, config, sentences, focus)
        model, overlap, report = transferred.model, transferred.overlap, transferred.report
    head = read_head(checkpoint.path, checkpoint.model)
    if config.grow:
        set_status(f"growing to {config.grow}")
        model = grow(model, config.grow, config.seed)
        head = head and grow_head(head, model.config.hidden_size, config.seed)
    report = {"parameters": model.num_parameters(), **report}
    if output is not None:
        set_status(f"writing {output}")
        read = records if isinstance(records, RecordReader) else None
        manifest = Manifest(
            "init-weights", {**asdict(config),
                             **(asdict(focus) if config.method == "focus" else {}),
                             "base": str(base), "tokenizer": tokenizer and str(tokenizer)},
            fingerprint(new), config.seed,
            read.hashes if read else {},
            DirectoryHashes({"base": checkpoint.path}), wall_seconds=time.monotonic() - started,
            results={**report, **(read.origins() if read else {})},
            licences={"text": read.licences()} if read and read.hashes else {}, step=step)
        joined = join_head(model, head.state_dict() if head else {})
        save_checkpoint(Path(output), joined, new, manifest, overwrite)
    return Transfer(model, overlap, report)


def split_sentences(records: Iterable[Record], lang: str = "en",
                    reject: Reject = refuse) -> Iterator[Sentence]:
    """Split records into sentences; a record with targets is one sentence.

    Args:
        records: records with text.
        lang: language of records without one.
        reject: receives records with unusable targets.

    Raises:
        DataError: there are no sentences.
    """
    is_empty = True
    for record in records:
        text, targets = record["text"], list[_Target]()
        if "targets" not in record:
            spans = sentence_spans(text, record.get("lang", lang))
        else:
            spans = [(0, len(text))]
            try:
                targets = msgspec.convert({"targets": record["targets"]}, _Targets)["targets"]
                faults = [fault for number, one in enumerate(targets) for fault in
                          span_faults(text, {"start": one["start"], "end": one["end"]},
                                      f"targets[{number}]")]
            except msgspec.ValidationError as error:
                faults = [readable(str(error))]
            if faults:
                reject(RecordError(record.place, faults[0], record))
                continue
        words = tuple((one["word"], one["start"], one["end"]) for one in targets)
        for start, end in spans:
            is_empty = False
            yield Sentence(text[start:end], words)
    if is_empty:
        raise DataError("no sentences in the input; give records with text, or set "
                        f"{setting('method')} average, which does not read any")


def transfer(base: Checkpoint, tokenizer: PreTrainedTokenizerFast, config: TransferConfig,
             sentences: Iterable[Sentence] = (), focus: FocusConfig | None = None) -> Transfer:
    """Move a model to a new vocabulary.

    Tokens of both vocabularies keep their embedding and bias; special tokens are matched by role. A
    token known in other spellings (see `find_overlap`) gets their mean. A new token gets a random
    embedding, the mean of its pieces' embeddings or states (section 4, "BM averaged"), the mean of
    the model's states for those pieces in sampled sentences (section 3), or a mixture of known
    tokens (`focus`). If there are no sentences in which the base's pieces cover exactly the token,
    it gets the mean of its pieces. The paper mentions this only for tokens that do not occur in the
    corpus.

    Untied output weights and biases are mixed like the embeddings in a mixture, 0 if embeddings are
    random, and otherwise the mean of the pieces' values. The paper does not specify this.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), sections 3 and 4.

    Args:
        base: the model and its old vocabulary.
        tokenizer: the new vocabulary.
        config: the method and its sample.
        sentences: the corpus; read only by methods in `READING_METHODS`.
        focus: settings of static vectors.

    Raises:
        CheckpointError: the vocabularies have different types, such as WordPiece and BPE.
            BmtoolsError: the base does not have one of the layers.
    """
    overlap = find_overlap(base.tokenizer, tokenizer)
    check_layers(base.model.config, config.layers)
    is_random = config.method == "random"
    sums = [WeightedRows.means(overlap.folded),
            WeightedRows.means({} if is_random else overlap.pieces)]
    read, left, mixed = locate_pieces(base, {}), dict[int, list[int]](), 0
    if config.method == "focus":
        texts = (sentence.text for sentence in sentences)
        sums.append(focus_embeddings(tokenizer, overlap, texts, focus or FocusConfig(),
                                     config.seed))
        mixed = len(sums[-1].tokens)
    elif config.method == "contextual":
        is_new = np.zeros(len(tokenizer), dtype=bool)
        is_new[list(overlap.pieces)] = True
        read = locate_pieces(base, sample_sentences(
            base, tokenizer, is_new, sentences, config.max_sentences,
            np.random.default_rng(config.seed)))
    in_context = {*read.tokens.tolist()}
    if config.average_of == "states" and config.method in ("average", "contextual"):
        left = {token: ids for token, ids in overlap.pieces.items() if token not in in_context}
    encoder: torch.nn.Module = base.model
    encoder.to(resolve_device(config.device))
    tokens, vectors = map(torch.cat, zip(*(
        contextual_embeddings(base, found, config.layers, config.batch_tokens)
        for found in (read, pieces_alone(base, left))), strict=True))
    encoder.to("cpu")
    if config.rescale and len(tokens):
        vectors *= _mean_norm(token_embeddings(base.model).weight) / _mean_norm(vectors)
    others = len(overlap.pieces) - len(in_context) - mixed
    set_status("filling the new vocabulary's weights")
    model = _rebuild(base.model, tokenizer, config.seed, overlap, sums, is_random)
    table = token_embeddings(model).weight.detach()
    table[tokens] = vectors
    norms = (_mean_norm(token_embeddings(base.model).weight),
             _mean_norm(table[list(overlap.pieces)]))
    return Transfer(model, overlap, {
        "tokens": len(overlap.shared) + len(overlap.folded) + len(overlap.pieces),
        "copied": len(overlap.shared), "folded": len(overlap.folded),
        "contextual": len(in_context), "focus": mixed, "sentences": len(read.input_ids),
        "averaged": 0 if is_random else others, "random": others if is_random else 0,
        "old_norm": float(f"{norms[0]:.4g}"), "new_norm": float(f"{norms[1]:.4g}")})


def _mean_norm(rows: Tensor) -> float:
    return float(rows.detach().norm(dim=1).mean()) if len(rows) else 0.0


def _rebuild(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, seed: int,
             overlap: VocabOverlap, sums: list[WeightedRows], is_random: bool) -> PreTrainedModel:
    """Build the architecture for a new vocabulary, and fill it by a plan of weights.

    Args:
        model: the base.
        tokenizer: the new vocabulary.
        seed: seed of random embeddings.
        overlap: overlap of the vocabularies.
        sums: sums of old rows for new tokens; later sums replace earlier ones.
        is_random: embeddings of new tokens stay random, and their biases are 0.
    """
    config = copy.deepcopy(model.config)
    set_vocabulary(config, tokenizer)
    # RoBERTa's positions begin after the padding token, whose id may have changed.
    unused, old_unused = first_position(config), first_position(model.config)
    config.max_position_embeddings += unused - old_unused
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        rebuilt = build_model(config).eval()
    new_ids, old_ids = map(list, zip(*overlap.shared.items(), strict=True))

    def vocabulary_rows(source: Tensor, target: Tensor) -> Tensor:
        made = target.clone()
        made[new_ids] = source[old_ids]
        if is_random and made.ndim == 1:
            made[list(overlap.pieces)] = 0.0
        for rows in sums:
            made[rows.tokens] = rows.sum_rows(source)
        return made

    def position_rows(source: Tensor, _target: Tensor) -> Tensor:
        return torch.cat([torch.zeros(unused, source.shape[1]), source[old_unused:]])

    larger = copy.deepcopy(config)
    larger.vocab_size += 1
    shapes, larger_shapes = ({name: weight.shape for name, weight in
                              build_model(one, "meta").state_dict().items()}
                             for one in (config, larger))
    positions = position_embeddings(rebuilt)
    learned = {name for name, weight in rebuilt.named_parameters()
               if positions is not None and weight is positions.weight}
    fill(rebuilt.state_dict(), {
        name: (name, position_rows if name in learned else
               copied if shape == larger_shapes[name] else vocabulary_rows)
        for name, shape in shapes.items()}, model.state_dict())
    return rebuilt
