"""Export of checkpoints to OpenVINO, with a check of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bmtools.errors import CheckpointError
from bmtools.export.graph import Graph, Inputs, as_tensors, silenced
from bmtools.io.directories import directory_bytes, new_directory, refuse_existing
from bmtools.io.failures import reading, require_room
from bmtools.io.json_files import read_manifest
from bmtools.io.jsonl import as_records
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.step import Step
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import Checkpoint, load_checkpoint, weight_bytes
from bmtools.models.exported.formats import COMMAND, FORMAT, Exported, Run, require_engine
from bmtools.models.exported.model import OPENVINO_FILE, import_openvino, load_openvino
from bmtools.models.model_files import WEIGHTS, read_config
from bmtools.models.precision import logits_difference
from bmtools.records import JsonObject, RecordSource
from bmtools.status import set_status
from bmtools.vocab.tokenizer import save_tokenizer

MOST_DIFFERENCE = 1e-3
"""Maximum difference of an export's float32 logits from the checkpoint's logits."""
_HEADS = ("MaskedLM", "TokenClassification", "SequenceClassification", "QuestionAnswering")
_RANDOM_SEQUENCES, _RANDOM_TOKENS = 128, 64
_HELD_OUT = 10  # one of this number of texts is used for comparison, not calibration
_BATCH = 4


def export_model(model: str | PathLike[str], output: str | PathLike[str],
                 calibration: RecordSource = (), *, int8: bool = False, overwrite: bool = False,
                 load: Callable[[Path], Checkpoint | None] = lambda _: None,
                 step: Step | None = None) -> JsonObject:
    """Write a checkpoint for OpenVINO, and compare their outputs.

    Int8 also rounds states, in ranges measured on the calibration texts or, without texts, on
    random tokens.

    Args:
        model: the checkpoint: masked language model, tagger, classifier or question answering.
        output: directory to write.
        calibration: file or records with texts for the calibration of int8 and the comparison.
        int8: round matrices, and the states they multiply, to eight bits.
        overwrite: replace the content of the output directory.
        step: the command, if one runs.
        load: loads only models with heads that transformers does not define, like
            `bmtools.tasks.predict.load_for_export`.

    Returns:
        `model`, `format`, `precision`, `engine`, `megabytes` and `difference`, on `random` tokens
        and on `texts`: the `max` and `mean` difference of logits, the mean `cosine`, and the share
        with the same largest logit, `same_argmax`.

    Raises:
        CheckpointError: if the head cannot be exported or outputs differ.
        DataError: if there is no text to calibrate on, or it is in another script.
        BmtoolsError: if packages are missing.
    """
    source, target = Path(model), Path(output)
    require_engine(COMMAND, *("nncf",) * int8)
    refuse_existing(target, overwrite)
    model_class = _model_class(source)
    checkpoint = load(source) or load_checkpoint(source, "cpu", model_class)
    graph = Graph(checkpoint, model_class)
    texts = graph.texts(as_records(calibration)) if calibration else []
    measured = [graph.inputs([ids]) for number, ids in enumerate(texts) if number % _HELD_OUT] or [
        graph.random(_RANDOM_TOKENS + number) for number in range(_RANDOM_SEQUENCES)]
    held_out = texts[::_HELD_OUT]
    checks = {"random": graph.shapes(), "texts": [graph.inputs(held_out[start:start + _BATCH])
                                                  for start in range(0, len(held_out), _BATCH)]}
    with new_directory(target, overwrite) as directory:
        require_room(directory / WEIGHTS, weight_bytes(checkpoint.model) // (4 if int8 else 1))
        checkpoint.model.config.save_pretrained(directory)
        set_status("tracing the model")
        program = graph.trace()
        set_status(f"writing {FORMAT}")
        with silenced(), reading(source, "cannot be written", "use the checkpoint"):
            _write_openvino(program, measured if int8 else (), directory)
        run = load_openvino(directory, torch.get_num_threads(), 1)
        set_status("comparing outputs")
        difference = {what: measure_difference(graph, run, inputs)
                      for what, inputs in checks.items() if inputs}
        worst = np.max([found["max"] for found in difference.values()])
        if not int8 and not worst <= MOST_DIFFERENCE:
            raise CheckpointError(f"{source}: exported logits differ by up to {worst:.2g}, "
                                  f"expected {MOST_DIFFERENCE:g} or less; use the checkpoint")
        save_tokenizer(checkpoint.tokenizer, directory)
        precision = "int8" if int8 else "float32"
        exported = Exported(FORMAT, precision, model_class, tuple(measured[0]),
                            max_tokens(checkpoint.model), str(source))
        line = {"format": FORMAT, "precision": precision,
                "engine": f"{FORMAT} {metadata.version(FORMAT)}",
                "megabytes": round(directory_bytes(directory) / 1e6, 1),
                "parameters": checkpoint.model.num_parameters(), "difference": difference}
        Manifest(COMMAND, {**read_manifest(source).get("settings", {}),
                           "exported": asdict(exported)}, checkpoint.vocabulary,
                 parents=DirectoryHashes({"source": source}), results=line,
                 step=step).write(directory)
    return {"model": str(target), **line}


def _model_class(directory: Path) -> str:
    """Return the auto class of a checkpoint's head.

    Raises:
        CheckpointError: if the head is not supported.
    """
    [name, *_] = read_config(directory).get("architectures") or [""]
    for head in _HEADS:
        if name.replace("ForPreTraining", f"For{_HEADS[0]}").endswith(f"For{head}"):
            return f"AutoModelFor{head}"
    raise CheckpointError(f"{directory}: found a model of class {name or 'unknown'}, expected one "
                          f"for {' or '.join(_HEADS)}")


def measure_difference(graph: Graph, run: Run, batches: Iterable[Inputs]) -> dict[str, float]:
    """Compare the logits of exported model and checkpoint, without padding."""
    def pairs() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for inputs in batches:
            with torch.inference_mode():
                exact = graph(**as_tensors(inputs))
            near = torch.from_numpy(run(inputs))
            kept = torch.from_numpy(inputs["attention_mask"]).bool() if exact.ndim > 2 else ...
            yield exact[kept], near[kept]

    return logits_difference(pairs())


def _write_openvino(traced: Any, calibration: Sequence[Inputs], directory: Path) -> None:
    """Write `openvino_model.xml` and `.bin`; int8 products use rounded weights and states."""
    openvino = import_openvino()
    model = openvino.convert_model(traced)
    model.output(0).get_tensor().set_names({"logits"})
    if calibration:
        import nncf

        model = nncf.quantize(model, nncf.Dataset(calibration),
                              model_type=nncf.ModelType.TRANSFORMER, subset_size=len(calibration))
    openvino.save_model(model, directory / OPENVINO_FILE, compress_to_fp16=False)
