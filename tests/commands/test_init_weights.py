"""`bmtools init-weights` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

import bmtools.models
from bmtools.io.jsonl import RecordReader
from bmtools.io.provenance.manifest import hash_directory
from bmtools.models.settings import METHODS

Run = Callable[..., Any]
FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
         "vocab.txt", "bmtools.json", "README.md"}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="session")
def base(make_tokenizer: Callable[..., Path], make_checkpoint: Callable[..., Path]) -> Path:
    """A model whose vocabulary splits the words of the corpus into pieces."""
    return make_checkpoint(make_tokenizer(
        "Il respirare, le ginocchia, i sanguigni. L'arterioso pompare ha mobilità di mellito"))


@pytest.fixture
def arguments(base: Path, tiny_tokenizer: Path, tmp_path: Path) -> list[Any]:
    return ["init-weights", "--base", base, "--tokenizer", tiny_tokenizer,
            "-o", tmp_path / "out"]


@pytest.mark.parametrize("method", METHODS)
def test_stdout_is_one_line_with_consistent_counts(run: Run, arguments: list[Any], corpus: Path,
                                                   method: str) -> None:
    outcome = run(*arguments, corpus, "--method", method, "--set", "focus_min_count=1")
    assert outcome.code == 0, outcome.err
    (line,) = outcome.records
    assert (line["checkpoint"], line["method"]) == (str(arguments[-1]), method)
    assert sum(line[key] for key in ("copied", "folded", "averaged", *METHODS) if key in line) \
        == line["tokens"]
    assert line["copied"] > 5
    assert line["averaged" if method == "average" else method] > 0
    assert (line["sentences"] > 0) == (method == "contextual")
    assert line["old_norm"] > 0 and line["new_norm"] > 0


def test_python_callers_get_the_same_weights(run: Run, arguments: list[Any], corpus: Path,
                                             base: Path, tiny_tokenizer: Path) -> None:
    assert run(*arguments, corpus, "--max-sentences", "2", "--rescale").code == 0
    made = bmtools.models.init_weights(base, tiny_tokenizer, RecordReader([str(corpus)]),
                                       max_sentences=2, rescale=True)
    saved = AutoModelForMaskedLM.from_pretrained(arguments[-1]).state_dict()
    assert all(torch.equal(weight, saved[name])
               for name, weight in made.model.state_dict().items())
    with pytest.raises(TypeError, match="found max_length, expected some of"):
        bmtools.models.init_weights(base, tiny_tokenizer, max_length=3)
    with pytest.raises(ValueError, match="max_sentences: found 0"):
        bmtools.models.init_weights(base, tiny_tokenizer, max_sentences=0)


def test_transformers_loads_it(run: Run, arguments: list[Any], corpus: Path, base: Path,
                               tiny_tokenizer: Path) -> None:
    run(*arguments, corpus)
    out = arguments[-1]
    assert {path.name for path in out.iterdir()} == FILES
    assert "language:\n- it\n" in (out / "README.md").read_text(encoding="utf-8")
    model, report = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    before = AutoModelForMaskedLM.from_pretrained(base)
    words = AutoTokenizer.from_pretrained(out)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert words.get_vocab() == AutoTokenizer.from_pretrained(tiny_tokenizer).get_vocab()
    assert words.model_max_length == 32
    logits = model(**words("Il diabete riduce", return_tensors="pt")).logits
    assert logits.shape[-1] == len(words) == model.config.vocab_size
    # Weights that do not depend on the vocabulary equal the base's weights, bit for bit.
    for ours, theirs in zip(model.bert.encoder.parameters(), before.bert.encoder.parameters(),
                            strict=True):
        assert torch.equal(ours, theirs)
    old = AutoTokenizer.from_pretrained(base)
    assert torch.equal(
        model.get_input_embeddings().weight[words.mask_token_id],
        before.get_input_embeddings().weight[old.mask_token_id])


def test_a_larger_model_reads_no_records(run: Run, arguments: list[Any], base: Path,
                                         tmp_path: Path) -> None:
    """With the base's vocabulary, or with a new one at the same time; both keep their parent."""
    target, other = tmp_path / "grown", tmp_path / "other"
    own = run("init-weights", "--base", base, "--grow", "2x128", "-o", target)
    both = run(*arguments, "--grow", "bert-tiny", "--method", "average", "-o", other)
    assert (own.code, both.code) == (0, 0), own.err + both.err
    models = [AutoModelForMaskedLM.from_pretrained(path) for path in (target, other)]
    for model, line in zip(models, own.records + both.records, strict=True):
        assert (model.config.num_hidden_layers, model.config.hidden_size) == (2, 128)
        assert line["parameters"] == model.num_parameters()
    assert own.records[0].keys() == {"checkpoint", "parameters"}
    assert both.records[0]["averaged"] > 0
    manifest = json.loads((target / "bmtools.json").read_text())
    assert manifest["parents"] == {"base": hash_directory(base)}
    assert (manifest["settings"]["grow"], manifest["settings"]["tokenizer"]) == ("2x128", None)
    too_small = run(*arguments, "--grow", "1x32", "--overwrite")
    assert (too_small.code, too_small.err) == (
        1, "bmtools: --grow: found 1x32, but the base is 1x64; expected more layers or greater "
           "width, and neither reduced\n")


def test_a_tokenizer_of_another_family_is_a_one_line_error(run: Run, arguments: list[Any],
                                                           corpus: Path, tmp_path: Path) -> None:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    words = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate([*special, "a", "b"])},
                                 merges=[]))
    PreTrainedTokenizerFast(tokenizer_object=words, cls_token="<s>", sep_token="</s>",
                            pad_token="<pad>", unk_token="<unk>",
                            mask_token="<mask>").save_pretrained(tmp_path / "bpe")
    outcome = run(*arguments, "--tokenizer", tmp_path / "bpe", corpus)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == ("bmtools: the base has a WordPiece vocabulary and the tokenizer a BPE "
                           "one; expected the same type\n")
