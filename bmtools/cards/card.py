"""Model cards: `README.md` of a checkpoint, from what its command knew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmtools.provenance.manifest import CARD
from bmtools.vocab.tokenizer import is_uncased

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerFast

_TEMPLATE = "card.md.jinja"
# Suffix of transformers' classes: the Hub's name of the task, and a title.
_HEADS = {"ForMaskedLM": ("fill-mask", "Masked language model"),
          "ForPreTraining": ("fill-mask", "Masked language model"),
          "ForTokenClassification": ("token-classification", "Entity tagger"),
          "ForSequenceClassification": ("text-classification", "Text classifier"),
          "ForQuestionAnswering": ("question-answering", "Question answering model"),
          "StaticModel": ("", "Static model")}
_TITLES = {"relations": "Relation finder"}
"""Titles of tasks whose head does not tell them."""
# Roles of checkpoints among a command's settings.
_BASES = {"model": "trained from", "base": "weights of", "teacher": "teacher",
          "published": "converted from", "student": "student's start"}
_HASH_DIGITS = 12
_TRAINING = ("objective", "steps", "tokens", "epochs", "seeds", "batch_size", "max_length",
             "learning_rate", "schedule", "masking", "mask_rate", "dropout", "optimizer")


def write_card(directory: Path, config: PretrainedConfig, weights: int,
               tokenizer: PreTrainedTokenizerFast, manifest: Mapping[str, Any]) -> None:
    """Write `README.md` into a checkpoint; the same checkpoint gets the same bytes.

    Args:
        directory: of the checkpoint.
        config: of the model, which names its class.
        weights: their number.
        tokenizer: of the model.
        manifest: content of `bmtools.json`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("bmtools", "cards"), trim_blocks=True,
                              lstrip_blocks=True, undefined=StrictUndefined,
                              keep_trailing_newline=True)
    text = environment.get_template(_TEMPLATE).render(
        **_card(config, weights, tokenizer, manifest))
    (directory / CARD).write_text(text, encoding="utf-8", newline="\n")


def _card(config: PretrainedConfig, weights: int, tokenizer: PreTrainedTokenizerFast,
          manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Collect what the template shows."""
    kind, settings = (config.architectures or ["model"])[0], manifest["settings"]
    tag, title = next((value for suffix, value in _HEADS.items() if kind.endswith(suffix)),
                      ("", "Model"))
    task = settings.get("task", "")
    title = _TITLES.get(task, title)
    bases = {role: settings[role] for role in _BASES if settings.get(role)}
    if config.problem_type == "regression":
        title = "Text regressor"
    tokenizer_type = type(tokenizer.backend_tokenizer.model).__name__
    return {
        "title": title, "pipeline_tag": tag, "task": task, "own_head": _has_own_head(settings),
        "is_static": kind.startswith("Static"), "command": manifest["command"],
        "languages": sorted({code for name in manifest["results"].get("languages", ())
                             if (code := name.partition("-")[0].lower()).isalpha()}),
        "licences": list(manifest["results"].get("licences", ())),
        "mask": tokenizer.mask_token, "max_length": tokenizer.model_max_length,
        "is_wordpiece": tokenizer_type == "WordPiece", "has_base": bool(bases),
        "facts": [*_architecture(kind, config, weights), (
                      "vocabulary", f"{len(tokenizer):,} tokens, {tokenizer_type}, "
                      f"{'uncased' if is_uncased(tokenizer) else 'cased'}"),
                  ("longest input", f"{tokenizer.model_max_length:,} tokens"),
                  *_origin(manifest, bases)],
        "training": _training(settings), "scores": list(_scores(manifest["results"]))}


def _has_own_head(settings: Mapping[str, Any]) -> bool:
    """Test whether a model has a head, tags or inputs that transformers' pipeline cannot use."""
    return settings.get("task") == "relations" or settings.get("scheme") == "bioul" \
        or settings.get("head", "linear") != "linear" \
        or any(settings.get(name) for name in ("crf", "overlapping"))


def _architecture(kind: str, config: PretrainedConfig,
                  weights: int) -> Iterator[tuple[str, str]]:
    yield "architecture", f"{kind}, {config.num_hidden_layers} layers of {config.hidden_size}"
    yield "weights", f"{weights:,}"
    if "For" in kind and not kind.endswith(("ForMaskedLM", "ForPreTraining")):
        outputs = "output" if config.problem_type == "regression" else "labels"
        yield outputs, ", ".join((config.id2label or {}).values())


def _origin(manifest: Mapping[str, Any], bases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name checkpoints and files without their directories, which are this machine's."""
    for role, path in bases.items():
        digest = manifest["parents"].get(role, "")[:_HASH_DIGITS]
        yield _BASES[role], f"`{Path(path).name}`" + (f" (SHA-256 {digest}...)" if digest else "")
    if merged := manifest["settings"].get("merged"):
        yield "mean of", ", ".join(f"`{Path(path).name}`" for path in merged)
    if not bases:
        yield "initial weights", "random"
    names = dict.fromkeys(Path(name).name for name in manifest["inputs"])
    if names:
        yield "files" if "published" in bases else "text", ", ".join(f"`{name}`" for name in names)
    corpora = manifest["results"].get("corpora", {})
    for name, counts in corpora.items():
        of = f" of {name}" if len(corpora) > 1 else ""
        yield f"size{of}", f"{counts['documents']:,} documents, {counts['tokens']:,} tokens"
    if manifest["tokens_seen"]:
        yield "tokens trained on", f"{manifest['tokens_seen']:,}, repetitions included"


def _training(settings: Mapping[str, Any]) -> list[list[str]]:
    """Make the rows of a table with a column for each phase, the first row its head."""
    phases = settings.get("phases") or [{"name": "value"}]
    columns = [{**settings, **phase} for phase in phases]
    for column in columns:
        if column.get("steps") or column.get("tokens"):
            column["epochs"] = 0  # the default, which counts for nothing then
    rows = [[name, *(_shown(column.get(name)) for column in columns)] for name in _TRAINING]
    rows = [row for row in rows if any(row[1:])]
    return [["setting", *(phase["name"] for phase in phases)], *rows] if rows else []


def _scores(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield final scores: the last losses of a run, or means over the seeds of fine-tuning."""
    for of, key in (("training", "last"), ("held-out text", "evaluate")):
        for name, value in results.get(key, {}).items():
            if name in ("loss", "mlm_accuracy") and value is not None:
                yield f"{name}, {of}", _shown(value)
    for name, value in results.items():
        if isinstance(value, Mapping) and "deviation" in value:
            spread = value["deviation"]
            yield name, _shown(value["mean"]) + (
                f" ± {_shown(spread)} over {results['seeds']} seeds" if spread is not None else "")


def _shown(value: Any) -> str:
    """Format a setting or a score; empty for what is unset."""
    if isinstance(value, float):
        return f"{value:.4g}" if value else ""
    return f"{value:,}" if isinstance(value, int) and value else str(value or "")
