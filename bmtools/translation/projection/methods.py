"""Methods of projection by name, with the engine and the files that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from bmtools.status import set_status
from bmtools.translation.engines.engine import Translator, translate_all
from bmtools.translation.engines.loading import load_engine, load_translator
from bmtools.translation.projection.pairs import Projector, SentencePair
from bmtools.translation.projection.settings import ProjectionConfig

_BY_MENTION = ("exact", "dictionary")


class Methods:
    """The methods of a run; only their own libraries are imported.

    Args:
        config: methods and their resources.
        source: language of the sources, ISO 639-1; empty where it is not known.
        target: of the translations.
        engine: of the settings, where it is loaded.

    Raises:
        ValueError: a method lacks what it needs.
    """

    def __init__(self, config: ProjectionConfig, source: str, target: str,
                 engine: Translator | None = None) -> None:
        config.require_resources()
        self._config = config
        self._loaded = engine
        self._languages = (config.engine.source_lang, config.engine.target_lang) \
            if config.engine else (source, target)

    @cached_property
    def _engine(self) -> Translator:
        """The engine by itself: a memory has neither marked sentences nor probabilities."""
        assert self._config.engine is not None
        return self._loaded or load_engine(self._config.engine)

    def with_mentions(self, pairs: Sequence[SentencePair]) -> Sequence[SentencePair]:
        """Add the translations of the annotated words by themselves, where a method looks for them.

        Each is translated once; one without a translation is empty.
        """
        if not self._config.translate_mentions or not set(_BY_MENTION) & set(self._config.methods):
            return pairs
        assert self._config.engine is not None
        translator = load_translator(self._config.engine, engine=self._engine)
        known = translate_all(translator, (pair.source[start:end] for pair in pairs
                                                 for start, end in pair.spans))
        return [replace(pair, mentions=tuple(known[pair.source[start:end]]
                                             for start, end in pair.spans)) for pair in pairs]

    def load(self, method: str) -> Projector:
        """Load a method.

        Raises:
            BmtoolsError: a model, file or program that it needs is missing.
            ValueError: a setting that does not fit its model.
        """
        set_status(f"loading {method}")
        config, resources = self._config, self._config.resources
        if method == "align":
            from bmtools.translation.projection.align import AlignProjector

            return AlignProjector()
        if method == "exact":
            from bmtools.translation.projection.exact import ExactProjector

            return ExactProjector()
        if method == "dictionary":
            from bmtools.translation.projection.dictionary import DictionaryProjector, read_glossary

            return DictionaryProjector(read_glossary(resources.glossary, *self._languages)
                                       if resources.glossary else {})
        if method == "embeddings":
            from bmtools.translation.projection.encoder import text_encoder

            assert resources.embeddings is not None
            return text_encoder(resources.embeddings, resources.layer,
                                resources.link_rule or "itermax")
        assert config.engine is not None
        if method == "encoder":
            from bmtools.translation.projection.encoder import translation_encoder

            return translation_encoder(
                config.engine.model, *self._languages, resources.layer,
                resources.link_rule or "softmax",
                self._engine if config.engine.engine == "transformers" else None)
        if method == "score":
            from bmtools.translation.engines.neural import NeuralTranslator
            from bmtools.translation.projection.score import ScoreProjector

            assert isinstance(self._engine, NeuralTranslator)
            return ScoreProjector(self._engine)
        from bmtools.translation.projection.markers import MarkersProjector

        return MarkersProjector(self._engine)
