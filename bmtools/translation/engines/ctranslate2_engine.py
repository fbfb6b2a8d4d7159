"""Engine on CTranslate2: a converted model, or one that is converted on the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.installation import require_extra
from bmtools.io.failures import reading
from bmtools.io.system import usable_cores
from bmtools.translation.engines.conversion import convert
from bmtools.translation.engines.model_files import is_converted
from bmtools.translation.engines.neural import Generated, NeuralTranslator, Search
from bmtools.translation.settings import ModelConfig

_BATCHES_EACH, _LEAST_TOKENS = 4, 256


class CTranslate2Translator(NeuralTranslator):
    """Translator with CTranslate2."""

    name = "ctranslate2"

    def __init__(self, settings: ModelConfig, source: str, target: str) -> None:
        require_extra("ctranslate2", f"{setting('engine')} ctranslate2")
        import ctranslate2

        device = settings.device
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        converted = is_converted(settings.directory)
        if settings.compute_type == "default" and not converted:
            settings = replace(settings, compute_type="int8" if device == "cpu" else "float16")
        supported = ctranslate2.get_supported_compute_types(device)
        if settings.compute_type not in ("default", *supported):
            raise BmtoolsError(f"{setting('compute_type')} {settings.compute_type} is not for "
                               f"this {device}; expected one of {', '.join(sorted(supported))}")
        super().__init__(settings, source, target)
        directory = settings.directory if converted else convert(settings, self.files)
        self._check_vocabulary(directory)
        # A core a batch is faster than all cores on one batch.
        self._workers = (settings.threads or usable_cores()) if device == "cpu" else 1
        try:
            self._model = ctranslate2.Translator(
                str(directory), device=device, compute_type=settings.compute_type,
                inter_threads=self._workers, intra_threads=1)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{directory}: {error}; expected the directory of a model converted by "
                "ct2-transformers-converter") from error

    def _check_vocabulary(self, directory: Path) -> None:
        """Compare the vocabularies of model and tokenizer.

        CTranslate2 reads a token that it does not know as `<unk>`, and without its language marks
        a model writes nonsense.
        """
        known: set[str] = set()
        for path in sorted(directory.glob("*_vocabulary.*")):
            with reading(path, "no vocabulary could be loaded", "convert the model again"):
                content = path.read_text("utf-8")
                known.update(json.loads(content) if path.suffix == ".json"
                             else content.split("\n"))
        marks = [*self.subwords.prefix, self.subwords.target_token]
        lacking = [mark for mark in marks if mark and mark not in known]
        if lacking:
            raise CheckpointError(f"{directory}: the converted model lacks {', '.join(lacking)}; "
                                  f"{setting('model')} also takes the directory that it was "
                                  "converted from")
        own = set(self.subwords.vocabulary) - set(self.subwords.tokenizer.all_special_tokens)
        foreign = sum(token not in known for token in own)
        if foreign > len(own) / 100:
            raise CheckpointError(
                f"{directory}: lacks {foreign} of the tokenizer's {len(own)} tokens; "
                f"{setting('tokenizer')} must name the directory that the model was converted from")

    def generate(self, sources: Sequence[list[str]], longest: int,
                 search: Search) -> list[Generated]:
        """Translate tokens; batches of similar length are formed inside."""
        mark = self.subwords.target_token
        results = self._model.translate_batch(
            list(sources), target_prefix=[[mark]] * len(sources) if mark else None,
            max_batch_size=self._batch_tokens(sources), batch_type="tokens", max_input_length=0,
            max_decoding_length=longest, return_end_token=True, return_scores=True,
            **search._asdict())
        # The score is a mean over all tokens, with a language token that was given.
        return [Generated(tokens := result.hypotheses[0],
                          result.scores[0] * len(tokens) / (len(tokens) - bool(mark)))
                for result in results]

    def _batch_tokens(self, sources: Sequence[list[str]]) -> int:
        """Return the size of batches of which each worker gets some."""
        share = sum(map(len, sources)) // (_BATCHES_EACH * self._workers)
        return min(self.settings.batch_tokens, max(share, _LEAST_TOKENS))

    def score(self, sources: Sequence[list[str]],
              targets: Sequence[list[str]]) -> list[list[float]]:
        """Score given translations; CTranslate2 adds their end itself."""
        results = self._model.score_batch(
            list(sources), [target[:-1] for target in targets],
            max_batch_size=self.settings.batch_tokens, batch_type="tokens", max_input_length=0)
        return [result.log_probs for result in results]
