"""Building of a vocabulary: documents are sampled, a tokenizer is trained or extended, and saved.

If no size is given, tokenizers of several sizes split text that they were not trained on, and the
knee of the curve decides.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from bmtools.errors import DataError, setting
from bmtools.io.directories import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.sources import read_list
from bmtools.io.step import Step
from bmtools.records import JsonObject, full_text
from bmtools.settings import split_settings
from bmtools.status import counted
from bmtools.vocab.encoding import encode
from bmtools.vocab.extension import extend_tokenizer, tokenizer_type_of
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.settings import AUTO, MIN_SIZE, SizeSearchConfig, VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, is_uncased, save_tokenizer
from bmtools.vocab.trainers import TRAINERS, TokenizerTrainer, train_tokenizer
from bmtools.vocab.words import count_words, fragmentation

_MIN_CANDIDATES = 3
_MEGABYTE = 1_000_000
_KEY_BYTES = 8
_KEYS = 1 << 8 * _KEY_BYTES
Progress = Callable[[Iterable[Mapping[str, object]]], Iterable[Mapping[str, object]]]


@dataclass(frozen=True)
class BuiltVocabulary:
    """A vocabulary and how it came about.

    Args:
        tokenizer: ready for use.
        results: figures for JSON: vocabulary size, sample, candidates ...
        fingerprint: of the tokenizer.
    """

    tokenizer: PreTrainedTokenizerFast
    results: JsonObject
    fingerprint: str


def build_vocab(records: str | PathLike[str] | Iterable[Mapping[str, object]],
                config: VocabularyConfig = VocabularyConfig(),  # noqa: B008 (frozen)
                output: str | PathLike[str] | None = None, *,
                extend: str | PathLike[str] | None = None,
                size_search: SizeSearchConfig = SizeSearchConfig(),  # noqa: B008
                overwrite: bool = False, progress: Progress = iter, step: Step | None = None,
                **settings: object) -> BuiltVocabulary:
    """Train a tokenizer, or extend one: `build_vocab("texts.jsonl", output="vocab", size=8000)`.

    Args:
        records: a file or records, read once, titles included; the sample of their texts is held in
            memory, unless `sample_megabytes` is 0.
        config: what to train, and whether its size is chosen.
        output: directory to write, with a manifest; None writes nothing.
        extend: tokenizer or checkpoint whose tokens and ids stay; new ones follow.
        size_search: how a size is chosen.
        overwrite: replace what the output directory holds.
        step: the command, if one runs.
        progress: passes records on, to show progress.
        settings: fields of `config` and `size_search`, in place of theirs.

    Raises:
        DataError: too little text, or none.
        CheckpointError: the old tokenizer cannot be extended.
    """
    output = None if output is None else Path(output)
    extend = None if extend is None else Path(extend)
    if settings:
        config, size_search = split_settings(
            {**asdict(config), **asdict(size_search), **settings}, VocabularyConfig,
            SizeSearchConfig)
    if isinstance(records, str | PathLike):
        records = RecordReader([str(records)])
    if output is not None:
        refuse_existing(output, overwrite)
    started = time.monotonic()
    terms = [term for _, term in read_list(size_search.terms)] if size_search.terms else []
    old = None if extend is None else load_tokenizer(extend)
    megabytes = config.sample_megabytes
    sample = DocumentSample(round(megabytes * _MEGABYTE) if megabytes else sys.maxsize, config.seed)
    texts = _sampled(map(full_text, progress(records)), sample, config)
    if config.size == AUTO:
        tokenizer, figures = _choose_size(sample, config, size_search, terms)
    elif old is not None:
        tokenizer, figures = extend_tokenizer(old, texts, config, str(extend))
    else:
        tokenizer, figures = train_tokenizer(texts, config), {}
    kind = {"tokenizer_type": config.tokenizer_type, "special_tokens": config.special_token_style}
    if old is not None:
        kind = {"tokenizer_type": tokenizer_type_of(old.backend_tokenizer, str(extend))}
    results = {
        "vocab_size": len(tokenizer), "requested_size": config.size or "auto", **kind,
        "uncased": is_uncased(tokenizer), "sample": sample.summary(), **figures}
    built = BuiltVocabulary(tokenizer, results, fingerprint(tokenizer))
    if output is not None:
        manifest = Manifest(
            "build-vocab", {**asdict(config), **asdict(size_search),
                            "extend": extend and str(extend)},
            built.fingerprint, seed=config.seed, inputs=getattr(records, "hashes", {}),
            parents=DirectoryHashes({} if extend is None else {"extended": extend}),
            wall_seconds=time.monotonic() - started, results=results,
            licences={"text": records.licences()} if isinstance(records, RecordReader) else {},
            step=step)
        with new_directory(output, overwrite) as partial:
            save_tokenizer(tokenizer, partial)
            manifest.write(partial)
    return built


def _sampled(texts: Iterable[str], sample: DocumentSample, config: VocabularyConfig,
             ) -> Iterator[str]:
    """Return the sampled texts, or all of them as they are read where there is no bound."""
    if not config.sample_megabytes and config.size != AUTO:
        return sample.passed(texts)
    sample.add(texts)
    if sample.documents and not len(sample):
        raise DataError(
            f"{setting('sample_megabytes')}: found a bound of {sample.max_bytes} bytes, which no "
            f"sampled document fits into (they have {sample.total_bytes // sample.documents} on "
            "average); expected more")
    return (text for _, text in sample)


def _choose_size(sample: DocumentSample, config: VocabularyConfig, size_search: SizeSearchConfig,
                 terms: Sequence[str]) -> tuple[PreTrainedTokenizerFast, JsonObject]:
    ratio = size_search.held_out_ratio
    held_out = [text for number, text in sample if is_held_out(config.seed, number, ratio)]
    trained_on = (text for number, text in sample if not is_held_out(config.seed, number, ratio))
    return search_size(trained_on, held_out, terms, config, size_search)


@dataclass
class DocumentSample:
    """Sample of a stream's documents, each with the same chance.

    A document's number and the seed decide its random key, and the documents with the lowest keys
    that fit into the bound are kept; one that is larger than the bound alone is passed over. So
    the sample does not depend on batches, threads or machines.

    Args:
        max_bytes: bound of the sample, in bytes of UTF-8.
        seed: of the sample.

    Attributes:
        documents: read so far.
        total_bytes: their length in UTF-8.
        sampled_bytes: length of those kept.
    """

    max_bytes: int
    seed: int
    documents: int = 0
    total_bytes: int = 0
    sampled_bytes: int = 0
    _kept: list[tuple[int, int, bytes]] = field(default_factory=list)
    _key_limit: int = _KEYS

    def passed(self, texts: Iterable[str]) -> Iterator[str]:
        """Pass every document on, keeping none, and count."""
        for text in texts:
            self.documents += 1
            self.total_bytes += len(text.encode("utf-8", "surrogatepass"))
            yield text

    def add(self, texts: Iterable[str]) -> None:
        """Sample more documents."""
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            key = random_key(self.seed, "sample", self.documents)
            if key < self._key_limit and len(content) <= self.max_bytes:
                heapq.heappush(self._kept, (-key, self.documents, content))
                self.sampled_bytes += len(content)
            self.documents += 1
            self.total_bytes += len(content)
            while self.sampled_bytes > self.max_bytes:
                # Drop the highest key, and with it all that would come after.
                key, _, content = heapq.heappop(self._kept)
                self._key_limit = -key
                self.sampled_bytes -= len(content)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield the sampled documents with their numbers, in the order of the stream."""
        for _, number, content in sorted(self._kept, key=lambda kept: kept[1]):
            yield number, content.decode("utf-8", "surrogatepass")

    def summary(self) -> dict[str, int]:
        """Count documents and bytes of the sample and of the stream."""
        kept = bool(self._kept)
        return {"documents": len(self) if kept else self.documents,
                "total_documents": self.documents,
                "bytes": self.sampled_bytes if kept else self.total_bytes,
                "total_bytes": self.total_bytes}


def is_held_out(seed: int, number: int, ratio: float) -> bool:
    """Return whether a document belongs to the share that nothing is trained on."""
    return random_key(seed, "held out", number) < ratio * _KEYS


def random_key(seed: int, purpose: str, number: int) -> int:
    """Return a document's key: 64 bits that look random, the same on any machine.

    Args:
        seed: of the sample.
        purpose: keeps samples for different ends independent.
        number: the document's.
    """
    digest = hashlib.blake2b(str(number).encode(), digest_size=_KEY_BYTES,
                             key=f"{purpose} {seed}".encode())
    return int.from_bytes(digest.digest(), "big")


def search_size(texts: Iterable[str], held_out: Sequence[str], terms: Sequence[str],
                config: VocabularyConfig, size_search: SizeSearchConfig,
                ) -> tuple[PreTrainedTokenizerFast, JsonObject]:
    """Train candidates and take the one at the knee of the fragmentation curve.

    WordPiece and BPE are trained once: a smaller vocabulary is the beginning of a larger one.
    Unigram is trained for each size.

    Args:
        texts: read once, trained on.
        held_out: not trained on.
        terms: words or groups of words that should stay whole; may be empty.
        config: all but the size.
        size_search: the candidates.

    Returns:
        the tokenizer of the size chosen, and figures for JSON: `chosen_size`, the larger of
        `knee` and `term_knee`, beyond which more tokens gain little on held-out text and on the
        terms; `held_out_documents`; and the `curve`, for each size in rising order with the
        `parameters` of its embeddings, the `tokens` of the held-out text, punctuation included,
        also divided by those at the largest size, `pieces_per_word` and `whole_share` of its
        words, and of the words of the terms, each counted once.

    Raises:
        DataError: no text, or fewer than three candidates that it supports.
    """
    trainer = TRAINERS[config.tokenizer_type](config)
    words = trainer.count_words(texts)
    held_out_words = count_words(held_out)
    if not held_out_words:
        raise DataError("no words in the held-out text; expected more documents, a larger "
                        f"{setting('held_out_ratio')}, or a number in place of auto: "
                        f"{setting('size')} {MIN_SIZE} {setting('allow_fewer')}")
    term_words = dict.fromkeys(count_words(terms), 1)
    candidates = _train_candidates(trainer, words, size_search)
    tokens = {size: sum(len(one.ids) for one in encode(tokenizer, held_out))
              for size, tokenizer in candidates.items()}
    most_tokens = tokens[max(tokens)]
    curve: list[dict[str, float]] = []
    for size, tokenizer in candidates.items():
        text = fragmentation(tokenizer.backend_tokenizer, held_out_words)
        score = {"size": size, "parameters": size * size_search.hidden_size,
                 "tokens": tokens[size], "relative_tokens": tokens[size] / most_tokens,
                 "pieces_per_word": text.pieces_per_word, "whole_share": text.whole_share}
        if term_words:
            of_terms = fragmentation(tokenizer.backend_tokenizer, term_words)
            score |= {"term_pieces_per_word": of_terms.pieces_per_word,
                      "term_whole_share": of_terms.whole_share}
        curve.append(score)
    sizes = list(candidates)
    knees = {name: sizes[find_knee(sizes, [score[value] for score in curve])]
             for name, value in (("knee", "pieces_per_word"), ("term_knee", "term_pieces_per_word"))
             if value in curve[0]}
    chosen = max(knees.values())
    return candidates[chosen], {
        "chosen_size": chosen, **knees, "held_out_documents": len(held_out),
        "curve": [{name: round(value, 4) for name, value in score.items()} for score in curve]}


def find_knee(sizes: Sequence[float], values: Sequence[float]) -> int:
    """Find the first point of a falling curve that is farthest below the line between its ends.

    Both axes are scaled to 0 to 1 first. Returns an index, 0 where nothing falls.

    Source: Satopaa et al. 2011 (Kneedle), section III, without smoothing and threshold, since the
    points are few and exact.
    """
    width, height = sizes[-1] - sizes[0], values[0] - values[-1]
    if height <= 0 or width <= 0:
        return 0
    below = [(values[0] - value) / height - (size - sizes[0]) / width
             for size, value in zip(sizes, values, strict=True)]
    return below.index(max(below))


def _train_candidates(trainer: TokenizerTrainer, words: Counter[str],
                      size_search: SizeSearchConfig) -> Mapping[int, PreTrainedTokenizerFast]:
    """Train the candidates that the words support, the smallest first."""
    smallest = trainer.min_size(words)
    sizes = [size for size in size_search.sizes() if size >= smallest]
    trained: dict[int, PreTrainedTokenizerFast] = {}
    if trainer.sizes_nest and sizes:
        largest = trainer.train(words, sizes[-1])
        trained = {size: truncate(largest, size, trainer) for size in sizes if size <= len(largest)}
    else:
        for size in counted(sizes, "trying sizes", len(sizes), "sizes"):
            tokenizer = trainer.train(words, size)
            if len(tokenizer) < size:
                break
            trained[size] = tokenizer
    if len(trained) < _MIN_CANDIDATES:
        raise DataError(
            f"{setting('candidates')}: found {size_search.candidates}, of which the text supports "
            f"{len(trained)}; expected {_MIN_CANDIDATES} at least, from {smallest} tokens on; "
            f"give others, more text, or a number in place of auto: {setting('size')} "
            f"{max(2 * smallest, MIN_SIZE)} {setting('allow_fewer')}")
    return trained


def truncate(tokenizer: PreTrainedTokenizerFast, size: int,
             trainer: TokenizerTrainer) -> PreTrainedTokenizerFast:
    """Return the tokenizer that training at a smaller size would have given."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    smaller = {**content, "model": trainer.truncated(content["model"], size),
               "added_tokens": [], "post_processor": None}
    return trainer.build(Tokenizer.from_str(json.dumps(smaller)).model)
