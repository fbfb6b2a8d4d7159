"""Initialization of a checkpoint with a new vocabulary: known tokens keep their weights."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from bmtools.errors import DataError, RecordError, Reject, refuse, setting
from bmtools.io.directories import refuse_existing
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.step import Step
from bmtools.models.architectures import (
    build_model,
    set_vocabulary,
    token_embeddings,
)
from bmtools.models.checkpoint import Checkpoint, save_checkpoint
from bmtools.models.next_sentence import join_head, read_head
from bmtools.models.settings import (
    READING_METHODS,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.models.transfer.context_embeddings import (
    Sentence,
    TokenEmbeddings,
    check_layers,
    contextual_embeddings,
    locate_pieces,
    pieces_alone,
    sample_sentences,
)
from bmtools.models.transfer.decoders import load_base
from bmtools.models.transfer.focus import focus_embeddings
from bmtools.models.transfer.growth import (
    grow,
    grow_head,
    grown_config,
    repeat_positions,
    set_positions,
)
from bmtools.models.transfer.token_distillation import distil_embeddings
from bmtools.models.transfer.vocab_overlap import VocabOverlap, WeightedRows, find_overlap
from bmtools.records import JsonObject, Record, span_faults
from bmtools.status import set_status
from bmtools.text.segment import sentence_spans
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint


@dataclass(frozen=True)
class Transfer:
    """A model with its new vocabulary.

    Args:
        model: complete.
        overlap: of the old and the new vocabulary.
        report: number of tokens by the source of their embedding, and mean norms of embeddings.
    """

    model: PreTrainedModel
    overlap: VocabOverlap
    report: JsonObject


def init_weights(base: str | Path, tokenizer: str | Path | None = None,
                 records: str | PathLike[str] | Iterable[object] = (),
                 output: str | Path | None = None, *, lang: str = "en", overwrite: bool = False,
                 step: Step | None = None,
                 reject: Reject = refuse,
                 progress: Callable[[Iterable[Record]], Iterable[Record]] = iter,
                 **settings: Any) -> Transfer:
    """Give a checkpoint a new vocabulary, a larger size or longer positions, or several of these.

    Embeddings of new tokens are initialized; a decoder becomes an encoder (`load_decoder`).

    Args:
        base: checkpoint whose weights are kept.
        tokenizer: directory of the new vocabulary; None keeps the base's.
        records: the corpus (files, records or dictionaries), read by methods contextual, focus and
            distil only. Records with the key "targets", as find-contexts writes them, are
            sentences with the words to use. Of a `RecordReader`, hashes of the files are recorded.
        output: checkpoint directory to write; None writes nothing.
        lang: language of records without one; sentences are split by it.
        overwrite: replace the content of the output directory.
        step: the command, if one runs.
        reject: receives records with unusable targets; by default the first one raises.
        progress: passes records on, to show progress.
        settings: of `TransferConfig`, `FocusConfig` or `TokenDistillationConfig`, by name, such as
            `method="focus", focus_window=3`.

    Returns:
        the model, and `report`: `parameters`, and of a new vocabulary `tokens` in all, tokens by
        the source of their embedding (`copied`, `folded`, `contextual`, `focus`, `distil`,
        `averaged`, `random`), `sentences` read, and mean norms of old embeddings and of those of
        new tokens (`old_norm`, `new_norm`). Of new tokens that methods contextual and distil find
        in no sentence as whole pieces of the base, `inexact` counts those that occur otherwise,
        `unseen` the others.

    Raises:
        BmtoolsError: a checkpoint, tokenizer, layer or record that cannot be used, no sentences,
            or an output directory that is not empty.
        TypeError: an unknown setting.
        ValueError: a setting out of range.
    """
    configs: list[Any] = [
        kind(**{name: settings.pop(name) for name in kind.__annotations__ if name in settings})
        for kind in (TransferConfig, FocusConfig, TokenDistillationConfig)]
    config, focus, distil = configs
    if settings:
        raise TypeError(f"init_weights: unknown settings {', '.join(sorted(settings))}")
    if output is not None:
        refuse_existing(Path(output), overwrite)
    started = time.monotonic()
    checkpoint = load_base(Path(base))
    if config.grow:
        grown_config(checkpoint.model.config, config.grow)  # refuses before anything is read
    new = checkpoint.tokenizer if tokenizer is None else load_tokenizer(Path(tokenizer))
    if tokenizer is None:
        model = checkpoint.model
        if config.max_positions or config.rope_base:
            model, _ = _rebuild(model, config, None)
        transferred = Transfer(model, VocabOverlap({}, {}, {}), {})
    else:
        sentences: Iterable[Sentence] = ()
        if config.method in READING_METHODS:
            sentences = split_sentences(
                check_targets(progress(as_records(records, reject)), reject), lang)
        transferred = transfer(checkpoint, new, config, sentences, focus, distil)
    model, head = transferred.model, read_head(checkpoint.path, checkpoint.model)
    if config.grow:
        set_status(f"growing to {config.grow}")
        model = grow(model, config.grow, config.seed)
        head = head and grow_head(head, model.config.hidden_size, config.seed)
    transferred = replace(transferred, model=model, report={
        "parameters": model.num_parameters(), **transferred.report})
    if output is not None:
        set_status(f"writing {output}")
        own = {"focus": asdict(focus), "distil": asdict(distil)}.get(config.method, {})
        read = records if isinstance(records, RecordReader) else None
        manifest = Manifest(
            "init-weights", {**asdict(config), **own, "base": str(base),
                             "tokenizer": tokenizer and str(tokenizer)},
            fingerprint(new), config.seed,
            read.hashes if read else {},
            DirectoryHashes({"base": checkpoint.path}), wall_seconds=time.monotonic() - started,
            results={**transferred.report, **(read.origins() if read else {})},
            licences={"text": read.licences()} if read and read.hashes else {}, step=step)
        joined = join_head(model, head.state_dict() if head else {})
        save_checkpoint(Path(output), joined, new, manifest, overwrite)
    return transferred


def split_sentences(records: Iterable[Record], lang: str = "en") -> Iterator[Sentence]:
    """Split records into sentences; those with targets are sentences already.

    Args:
        records: with text.
        lang: language of records without one.

    Raises:
        DataError: there are no sentences.
    """
    is_empty = True
    for record in records:
        text, targets = record["text"], record.get("targets")
        spans = sentence_spans(text, record.get("lang", lang)) if targets is None else \
            [(0, len(text))]
        words = tuple((one["word"], one["start"], one["end"]) for one in targets or ())
        for start, end in spans:
            is_empty = False
            yield Sentence(text[start:end], words)
    if is_empty:
        raise DataError("no sentences in the input; expected records with some text, or "
                        f"{setting('method')} average, which reads none")


def check_targets(records: Iterable[Record], reject: Reject = refuse) -> Iterator[Record]:
    """Pass records on, except those with unusable targets, which `reject` receives."""
    for record in records:
        fault = _target_fault(record) if "targets" in record else ""
        if fault:
            reject(RecordError(record.place, fault, record))
        else:
            yield record


def _target_fault(record: Record) -> str:
    """Describe what is wrong with the targets of a record, if anything."""
    targets = record["targets"]
    if not isinstance(targets, list):
        return f"key 'targets': found {type(targets).__name__}, expected a list"
    for number, one in enumerate(targets):
        if not isinstance(one, dict) or not isinstance(one.get("word"), str) \
                or not all(type(one.get(name)) is int for name in ("start", "end")):
            return (f"key 'targets[{number}]': found {str(one)[:60]}, expected an object with "
                    "word, start and end")
        for fault in span_faults(record["text"], {"start": one["start"], "end": one["end"]},
                                 f"targets[{number}]"):
            return fault
    return ""


def transfer(base: Checkpoint, tokenizer: PreTrainedTokenizerFast, config: TransferConfig,
             sentences: Iterable[Sentence] = (), focus: FocusConfig | None = None,
             distil: TokenDistillationConfig | None = None) -> Transfer:
    """Move a model to a new vocabulary.

    Tokens of both vocabularies keep their embedding and bias, special tokens by their role; a
    token known in other spellings (see `find_overlap`) gets the mean of those. A new token gets a
    random embedding, the mean of its pieces' embeddings or states (section 4, "BM averaged"), the
    mean of the model's states for those pieces in sampled sentences (section 3), a mixture of known
    tokens (`focus`), or one fitted to sampled sentences (`token_distillation`). A token without
    sentences in which the base's pieces cover it and nothing else falls back to the mean of its
    pieces; of those, the paper knows only tokens that the corpus lacks.

    Untied output weights, and biases, are mixed like embeddings in a mixture, are 0 beside random
    embeddings, and otherwise the mean of the pieces': the paper does not say.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), sections 3 and 4.

    Args:
        base: the model and its old vocabulary.
        tokenizer: the new vocabulary.
        config: the method and its sample.
        sentences: the corpus; read by methods in `READING_METHODS` only.
        focus: of static vectors.
        distil: of the fit.

    Raises:
        CheckpointError: vocabularies of two types, such as WordPiece and BPE.
        BmtoolsError: a layer that the base lacks, or fewer positions than it has.
    """
    overlap = find_overlap(base.tokenizer, tokenizer)
    check_layers(base.model.config, config.layers)
    report, mixtures, embeddings = _initialize(
        base, tokenizer, overlap, config, sentences, focus or FocusConfig(),
        distil or TokenDistillationConfig())
    set_status("filling the new vocabulary's weights")
    model, vocabulary_tensors = _rebuild(base.model, config, tokenizer)
    is_random = config.method == "random"
    _fill(base.model, model, vocabulary_tensors, overlap, mixtures, embeddings, is_random)
    report = {"contextual": 0, "focus": 0, "distil": 0, "sentences": 0, **report}
    others = len(overlap.pieces) - report["contextual"] - report["focus"] - report["distil"]
    norms = (_mean_norm(token_embeddings(base.model).weight),
             _mean_norm(token_embeddings(model).weight[list(overlap.pieces)]))
    return Transfer(model, overlap, {
        "tokens": len(overlap.shared) + len(overlap.folded) + len(overlap.pieces),
        "copied": len(overlap.shared), "folded": len(overlap.folded), **report,
        "averaged": 0 if is_random else others, "random": others if is_random else 0,
        "old_norm": _rounded(norms[0]), "new_norm": _rounded(norms[1])})


def _initialize(base: Checkpoint, tokenizer: PreTrainedTokenizerFast, overlap: VocabOverlap,
                config: TransferConfig, sentences: Iterable[Sentence], focus: FocusConfig,
                distil: TokenDistillationConfig
                ) -> tuple[JsonObject, WeightedRows | None, TokenEmbeddings | None]:
    """Find a method's values for new tokens, in place of the mean of their pieces.

    Returns:
        figures about them; mixtures of old rows, for every tensor with a row for each token; and
        input embeddings.
    """
    if config.method == "focus":
        texts = (sentence.text for sentence in sentences)
        mixtures = focus_embeddings(tokenizer, overlap, texts, focus, config.seed)
        return {"focus": len(mixtures.tokens)}, mixtures, None
    report: JsonObject = {}
    found = TokenEmbeddings(torch.zeros(0, dtype=torch.int64),
                            torch.zeros(0, base.model.config.hidden_size))
    if config.method in ("contextual", "distil"):
        report, found = _read_contexts(base, tokenizer, overlap, config, sentences, distil)
    if config.method in ("average", "contextual") and config.average_of == "states":
        done = {*found.tokens.tolist()}
        left = {token: ids for token, ids in overlap.pieces.items() if token not in done}
        alone = contextual_embeddings(base, pieces_alone(base, left), config.layers,
                                      config.batch_tokens)
        found = TokenEmbeddings(*map(torch.cat, zip(found, alone, strict=True)))
    if config.rescale and len(found.tokens):
        factor = _mean_norm(token_embeddings(base.model).weight) / _mean_norm(found.vectors)
        found = found._replace(vectors=found.vectors * factor)
    return report, None, found


def _read_contexts(base: Checkpoint, tokenizer: PreTrainedTokenizerFast, overlap: VocabOverlap,
                   config: TransferConfig, sentences: Iterable[Sentence],
                   distil: TokenDistillationConfig) -> tuple[JsonObject, TokenEmbeddings]:
    """Make embeddings from sampled sentences, by method contextual or distil, and count them."""
    is_new = np.zeros(len(tokenizer), dtype=bool)
    is_new[list(overlap.pieces)] = True
    sampled = sample_sentences(base, tokenizer, is_new, sentences, config.max_sentences,
                               np.random.default_rng(config.seed))
    occurrences = locate_pieces(base, sampled.spans)
    table = token_embeddings(base.model).weight.detach()
    report: JsonObject = {"sentences": len(occurrences.input_ids)}
    if config.method == "contextual":
        found = contextual_embeddings(base, occurrences, config.layers, config.batch_tokens)
    else:
        means = WeightedRows.means(overlap.pieces)
        initial = torch.zeros(len(tokenizer), table.shape[1])
        initial[means.tokens] = means.sum_rows(table.cpu())
        found, before, after = distil_embeddings(
            base, occurrences, initial, config.layers, config.batch_tokens, distil,
            np.random.default_rng(config.seed))
        report |= {"loss_before": _rounded(before), "loss_after": _rounded(after)}
    exact, inexact = len(np.unique(occurrences.tokens)), len(sampled.inexact)
    report |= {config.method: len(found.tokens), "inexact": inexact,
               "unseen": len(overlap.pieces) - exact - inexact}
    return report, found


def _mean_norm(rows: Tensor) -> float:
    return float(rows.detach().norm(dim=1).mean()) if len(rows) else 0.0


def _rebuild(model: PreTrainedModel, config: TransferConfig,
             tokenizer: PreTrainedTokenizerFast | None) -> tuple[PreTrainedModel, set[str]]:
    """Build the architecture around a new vocabulary and number of positions, and copy weights.

    Returns:
        the model, and the names of the weights that are not copied, because their shape depends on
        the size of the new vocabulary.
    """
    new_config, vocabulary_tensors = copy.deepcopy(model.config), set[str]()
    if tokenizer is not None:
        set_vocabulary(new_config, tokenizer)
        vocabulary_tensors = _vocabulary_tensors(new_config)
    set_positions(new_config, model.config, config.max_positions, config.rope_base)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        rebuilt = build_model(new_config).eval()
    kept = {name: tensor for name, tensor in model.state_dict().items()
            if name not in vocabulary_tensors}
    repeat_positions(kept, rebuilt, model.config)
    rebuilt.load_state_dict(kept, strict=False)
    return rebuilt, vocabulary_tensors


def _vocabulary_tensors(config: PretrainedConfig) -> set[str]:
    """Name the weights whose shape depends on the vocabulary's size."""
    larger = copy.deepcopy(config)
    larger.vocab_size += 1
    before, after = (build_model(one, "meta").state_dict() for one in (config, larger))
    return {name for name in before if before[name].shape != after[name].shape}


@torch.no_grad()
def _fill(old: PreTrainedModel, new: PreTrainedModel, vocabulary_tensors: set[str],
          overlap: VocabOverlap, mixtures: WeightedRows | None,
          embeddings: TokenEmbeddings | None, is_random: bool) -> None:
    """Fill every weight that depends on the vocabulary, in place; tied ones are one weight."""
    table = token_embeddings(new).weight
    before, after = old.state_dict(), new.state_dict()
    new_ids, old_ids = map(list, zip(*overlap.shared.items(), strict=True))
    sums = [WeightedRows.means(overlap.folded),
            WeightedRows.means({} if is_random else overlap.pieces)]
    if mixtures is not None:
        sums.append(mixtures)
    filled: set[int] = set()
    for name in sorted(vocabulary_tensors):
        target, source = after[name], before[name].cpu()
        if target.data_ptr() in filled:
            continue
        filled.add(target.data_ptr())
        target[new_ids] = source[old_ids]
        if is_random and target.ndim == 1:
            target[list(overlap.pieces)] = 0.0
        for rows in sums:
            target[rows.tokens] = rows.sum_rows(source)
        if target.data_ptr() == table.data_ptr() and embeddings is not None:
            target[embeddings.tokens] = embeddings.vectors


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
