"""Export of checkpoints: a writer for each engine, whose outputs are checked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from bmtools.errors import CheckpointError, setting
from bmtools.export.graph import Graph, Inputs, as_tensors, silenced
from bmtools.io.directories import directory_bytes, new_directory, refuse_existing
from bmtools.io.failures import reading, require_room
from bmtools.io.json_files import read_manifest
from bmtools.io.jsonl import as_records
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.step import Step
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import (
    Checkpoint,
    load_checkpoint,
    weight_bytes,
    write_checkpoint_files,
)
from bmtools.models.exported.formats import COMMAND, FORMATS, STATIC_FORMAT, Exported, Run
from bmtools.models.exported.model import (
    ENCODER,
    HEAD,
    HEAD_CLASS,
    LOADERS,
    ONNX_FILE,
    OPENVINO_FILE,
    import_openvino,
    make_head,
)
from bmtools.models.int8 import supported_weights, write_encoder
from bmtools.models.model_files import WEIGHTS, read_config
from bmtools.models.settings import ExportConfig
from bmtools.records import JsonObject, RecordSource
from bmtools.status import set_status
from bmtools.vocab.tokenizer import save_tokenizer

MOST_DIFFERENCE = 1e-3
"""Largest difference of float32 logits from the checkpoint's that an export may have."""
_ENCODER = "AutoModel"
_HEADS = ("MaskedLM", "TokenClassification", "SequenceClassification", "QuestionAnswering")
_RANDOM_SEQUENCES, _RANDOM_TOKENS = 128, 64
_HELD_OUT = 10  # of as many texts one is compared on rather than calibrated on
_BATCH = 4


@dataclass(frozen=True)
class Source:
    """A checkpoint to be written in a format, and inputs to calibrate it on.

    Args:
        checkpoint: in float32 on the CPU.
        graph: of its model.
        calibration: inputs that ranges of states are measured on.
        int8: round matrices to eight bits.
    """

    checkpoint: Checkpoint
    graph: Graph
    calibration: Sequence[Inputs]
    int8: bool

    @cached_property
    def program(self) -> Any:
        """The graph traced by torch.export."""
        set_status("tracing the model")
        return self.graph.trace()


def export_model(model: str | PathLike[str], output: str | PathLike[str],
                 calibration: RecordSource = (), *, overwrite: bool = False,
                 load: Callable[[Path], Checkpoint | None] = lambda _: None,
                 step: Step | None = None,
                 **settings: Any) -> list[JsonObject]:
    """Write a checkpoint for other engines, and check their outputs against its own.

    Int8 rounds states, too. onnxruntime finds their range anew for each input; OpenVINO takes that
    of the calibration, of texts or, without any, of random tokens.

    Args:
        model: the checkpoint: masked language model, tagger, classifier or question answering.
        output: directory to write; of several formats each gets one of its name in it.
        calibration: file or records whose texts int8 is calibrated on, and outputs compared on.
        overwrite: replace the content of the output directory.
        step: the command, if one runs.
        load: loads a model with a head of its own, and no other, as
            `bmtools.tasks.predict.load_for_export` does.
        settings: fields of `ExportConfig`.

    Returns:
        for each format `model`, `format`, `precision`, `engine`, `megabytes` and `difference`: the
        `max` and `mean` difference of logits, the mean `cosine`, and the share whose largest logit
        is the `same_argmax`, on `random` tokens and on `texts`.

    Raises:
        CheckpointError: a head that no graph can hold, or outputs that differ.
        DataError: nothing to calibrate on, or text in another script.
        BmtoolsError: packages are missing.
    """
    config, directory, target = ExportConfig(**settings), Path(model), Path(output)
    graphs = [name for name in config.formats if name != STATIC_FORMAT]
    for name in graphs:
        kind = FORMATS[name]
        kind.require(f"{setting('format')} {name}", *kind.needs_to_write,
                     *kind.needs_for_int8 * config.int8)
    refuse_existing(target, overwrite)
    model_class = _model_class(directory, needs_head=bool(graphs))
    checkpoint = load(directory) or load_checkpoint(directory, "cpu", model_class,
                                                    new_head=model_class == _ENCODER)
    prepared = _prepare(checkpoint, model_class, calibration, config.int8) if graphs else None
    lines = []
    with new_directory(target, overwrite) as partial:
        for name in config.formats:
            part = name if len(config.formats) > 1 else ""
            (partial / part).mkdir(exist_ok=True)
            line = _export(*prepared, name, partial / part, step) \
                if prepared and name != STATIC_FORMAT else \
                _export_static(checkpoint, config.dimensions, partial / part, step)
            lines.append({"model": str(target / part), **line})
    return lines


def _model_class(directory: Path, needs_head: bool) -> str:
    """Name the auto class of a checkpoint's head, or that of an encoder without any.

    Raises:
        CheckpointError: a head that is not known here.
    """
    [name, *_] = read_config(directory).get("architectures") or [""]
    for head in _HEADS:
        if name.replace("ForPreTraining", f"For{_HEADS[0]}").endswith(f"For{head}"):
            return f"AutoModelFor{head}"
    if not needs_head:
        return _ENCODER
    raise CheckpointError(f"{directory}: found a model of class {name or 'unknown'}, expected one "
                          f"for {' or '.join(_HEADS)}")


def _prepare(checkpoint: Checkpoint, model_class: str,
             calibration: RecordSource,
             int8: bool) -> tuple[Source, dict[str, Sequence[Inputs]]]:
    """Make the graph and its inputs: those to calibrate it on, and those to compare it on."""
    graph = Graph(checkpoint, model_class)
    texts = graph.texts(as_records(calibration)) if calibration else []
    measured = [graph.inputs([ids]) for number, ids in enumerate(texts) if number % _HELD_OUT] or [
        graph.random(_RANDOM_TOKENS + number) for number in range(_RANDOM_SEQUENCES)]
    held_out = texts[::_HELD_OUT]
    return Source(checkpoint, graph, measured, int8), {
        "random": graph.shapes(), "texts": [graph.inputs(held_out[start:start + _BATCH])
                                            for start in range(0, len(held_out), _BATCH)]}


def _export(source: Source, checks: Mapping[str, Sequence[Inputs]], name: str,
            directory: Path, step: Step | None) -> JsonObject:
    """Write a format's files and the manifest into an unfinished directory, and check them.

    Returns:
        what is reported.
    """
    checkpoint, kind = source.checkpoint, FORMATS[name]
    set_status(f"writing {name}")
    require_room(directory / WEIGHTS, weight_bytes(checkpoint.model) // (4 if source.int8 else 1))
    checkpoint.model.config.save_pretrained(directory)
    with silenced(), reading(checkpoint.path, f"cannot be written as {name}",
                             "leave out this format"):
        WRITERS[name](source, directory)
    run = LOADERS[name](directory, torch.get_num_threads(), 1)
    set_status(f"comparing {name}")
    precision = "int8" if source.int8 else "float32"
    difference = {what: measure_difference(source.graph, run, inputs)
                  for what, inputs in checks.items() if inputs}
    worst = np.max([found["max"] for found in difference.values()])
    if not source.int8 and not worst <= MOST_DIFFERENCE:
        raise CheckpointError(f"{checkpoint.path}: logits in {name} differ by up to {worst:.2g}, "
                              f"expected {MOST_DIFFERENCE:g} or less; leave out this format")
    save_tokenizer(checkpoint.tokenizer, directory)
    exported = Exported(name, precision, source.graph.model_class, tuple(source.calibration[0]),
                        max_tokens(checkpoint.model), str(checkpoint.path))
    line = {"format": name, "precision": precision, "engine": kind.engine(),
            "megabytes": round(directory_bytes(directory) / 1e6, 1),
            "parameters": checkpoint.model.num_parameters(), "difference": difference}
    Manifest(COMMAND, {**read_manifest(checkpoint.path).get("settings", {}),
                       "exported": asdict(exported)}, checkpoint.vocabulary,
             parents=DirectoryHashes({"source": checkpoint.path}), results=line,
             step=step).write(directory)
    return line


def _export_static(teacher: Checkpoint, dimensions: int, directory: Path,
                   step: Step | None) -> JsonObject:
    """Write a static model, which is a checkpoint, into an unfinished directory."""
    from bmtools.export.static import distill_static

    model = distill_static(teacher, dimensions)
    line = {"format": STATIC_FORMAT, "precision": "float32", "tokens": model.config.vocab_size,
            "dimensions": model.config.hidden_size}
    write_checkpoint_files(directory, model, teacher.tokenizer, Manifest(
        f"{COMMAND} --format {STATIC_FORMAT}", {"teacher": str(teacher.path)}, teacher.vocabulary,
        parents=DirectoryHashes({"teacher": teacher.path}), results=line, step=step))
    return {**line, "megabytes": round(directory_bytes(directory) / 1e6, 1)}


def measure_difference(graph: Graph, run: Run, batches: Iterable[Inputs]) -> dict[str, float]:
    """Compare an exported model's logits with the checkpoint's, padding left out."""
    rows, most, *means = zip(*(_compare(graph, run, inputs) for inputs in batches), strict=True)
    return {"max": float(f"{np.max(most):.3g}"), **{
        name: float(f"{np.average(values, weights=rows):.7g}")
        for name, values in zip(("mean", "cosine", "same_argmax"), means, strict=True)}}


def _compare(graph: Graph, run: Run, inputs: Inputs) -> tuple[float, ...]:
    """Compare the logits of a batch: their rows, and the four figures."""
    with torch.inference_mode():
        exact = graph(**as_tensors(inputs)).double()
    near = torch.from_numpy(run(inputs)).double()
    if exact.ndim > 2:
        kept = torch.from_numpy(inputs["attention_mask"]).bool()
        exact, near = exact[kept], near[kept]
    errors, same = (exact - near).abs(), exact.argmax(1) == near.argmax(1)
    return (len(exact), *map(float, (errors.max(), errors.mean(),
                                     torch.cosine_similarity(exact, near).mean(),
                                     same.double().mean())))


def write_onnx(source: Source, directory: Path) -> None:
    """Write `model.onnx`; in int8 matrices are rounded row by row, states as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    program = torch.onnx.export(source.program, dynamo=True, verbose=False,
                                output_names=["logits"])
    assert program is not None
    if not source.int8:
        program.save(directory / ONNX_FILE)
        return
    with tempfile.TemporaryDirectory(prefix="bmtools-", dir=directory) as temporary:
        program.save(Path(temporary) / ONNX_FILE)
        quantize_dynamic(Path(temporary) / ONNX_FILE, directory / ONNX_FILE, per_channel=True,
                         weight_type=QuantType.QInt8)


def write_openvino(source: Source, directory: Path) -> None:
    """Write `openvino_model.xml` and `.bin`; in int8 products take rounded weights and states."""
    openvino = import_openvino()
    model = openvino.convert_model(source.program)
    model.output(0).get_tensor().set_names({"logits"})
    if source.int8:
        import nncf

        model = nncf.quantize(model, nncf.Dataset(source.calibration),
                              model_type=nncf.ModelType.TRANSFORMER,
                              subset_size=len(source.calibration))
    openvino.save_model(model, directory / OPENVINO_FILE, compress_to_fp16=False)


def write_ctranslate2(source: Source, directory: Path) -> None:
    """Write `encoder/`, which `ctranslate2.Encoder` loads, and the head, `head.safetensors`.

    In int8 matrices are rounded row by row and states token by token; the head, which
    CTranslate2 has none of, is stored in float16 then, and computed in float32.
    """
    model = source.checkpoint.model
    weights = supported_weights(model, "in CTranslate2", f"leave out {setting('format')} "
                                "ctranslate2")
    inner = directory / ENCODER
    inner.mkdir()
    write_encoder(model.config, weights, "int8" if source.int8 else "float32", inner)
    encoder = tuple(f"{model.base_model_prefix}.{part}." for part in ("embeddings", "encoder"))
    state = {name: weight.detach().to(torch.float16 if source.int8 else torch.float32, copy=True)
             for name, weight in model.state_dict().items() if not name.startswith(encoder)}
    try:
        make_head(source.graph.model_class, state, model.config)
    except KeyError as error:
        raise CheckpointError(f"{source.checkpoint.path}: found a head without {error}, expected "
                              f"one of transformers; leave out {setting('format')} "
                              "ctranslate2") from error
    save_file(state, directory / HEAD, {HEAD_CLASS: source.graph.model_class})

WRITERS: dict[str, Callable[[Source, Path], None]] = {
    "onnx": write_onnx, "openvino": write_openvino, "ctranslate2": write_ctranslate2}
