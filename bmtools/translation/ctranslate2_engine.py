"""Engine on CTranslate2: converted models, fast on CPUs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.translation.neural import NeuralTranslator
from bmtools.translation.settings import ModelConfig


class CTranslate2Translator(NeuralTranslator):
    """Translator with a model directory that ct2-transformers-converter wrote."""

    name = "ctranslate2"

    def __init__(self, settings: ModelConfig, source: str, target: str) -> None:
        try:
            import ctranslate2
        except ImportError as error:
            raise BmtoolsError(f"{setting('engine')} ctranslate2 needs the package ctranslate2: "
                               "pip install 'bmtools[ctranslate2]'") from error
        super().__init__(settings, source, target)
        self._check_vocabulary()
        try:
            self._model = ctranslate2.Translator(
                str(settings.model), device=settings.device, compute_type=settings.compute_type)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{settings.model}: {error}; expected the directory of a model converted by "
                "ct2-transformers-converter") from error

    def generate(self, sources: Sequence[list[str]], longest: int) -> list[list[str]]:
        """Translate tokens; batches of similar length are formed inside."""
        mark = self.subwords.target_token
        results = self._model.translate_batch(
            list(sources), target_prefix=[[mark]] * len(sources) if mark else None,
            beam_size=self.settings.beam_size, max_batch_size=self.settings.batch_tokens,
            batch_type="tokens", max_input_length=0, max_decoding_length=longest,
            return_end_token=True)
        return [result.hypotheses[0] for result in results]

    def _check_vocabulary(self) -> None:
        """Make sure that tokenizer and model belong together.

        CTranslate2 reads a token that it does not know as `<unk>`, and without its language
        marks a model writes nonsense.
        """
        model = self.settings.model
        known: set[str] = set()
        for path in sorted(model.glob("*_vocabulary.*")):
            content = path.read_text("utf-8")
            known.update(json.loads(content) if path.suffix == ".json" else content.split("\n"))
        if not known:
            raise CheckpointError(f"{model}: found no vocabulary; expected the directory of a "
                                  "model converted by ct2-transformers-converter")
        marks = [*self.subwords.prefix, self.subwords.target_token]
        lacking = [mark for mark in marks if mark and mark not in known]
        if lacking:
            raise CheckpointError(f"{model}: the converted model lacks {', '.join(lacking)}; "
                                  "convert it again with its language tokens")
        own = set(self.subwords.vocabulary) - set(self.subwords.tokenizer.all_special_tokens)
        foreign = sum(token not in known for token in own)
        if foreign > len(own) / 100:
            raise CheckpointError(
                f"{model}: lacks {foreign} of the tokenizer's {len(own)} tokens; "
                f"{setting('tokenizer')} must name the directory that the model was converted from")
