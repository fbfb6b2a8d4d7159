"""Neural engines: sentences as the model's tokens, translations that end; CTranslate2."""

from __future__ import annotations

import json
import re
import sys
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bmtools.corpus.languages import nllb_code, primary_language, three_letters
from bmtools.errors import CheckpointError, setting
from bmtools.installation import require_extra
from bmtools.io.failures import reading
from bmtools.models.checkpoint_files import CONFIG, read_config
from bmtools.translation.engines.engine import Translation
from bmtools.translation.engines.model_files import check_converted
from bmtools.translation.settings import ModelConfig

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

# Language tokens: NLLB, M2M-100 and mBART have them on both sides, Marian and MADLAD-400 put the
# target's before the source.
_LANGUAGE_TOKEN = re.compile(
    r"[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}|>>.+<<|<2\w+>")
_BEFORE_SOURCE = (">>", "<2")


class NeuralTranslator(ABC):
    """Translator with a sequence-to-sequence model.

    Nothing is truncated silently: a sentence that is longer than the model takes has a fault,
    and so has a translation that had not ended when it was much longer than its source.
    """

    name: str
    marks_unknown = False
    batch_sentences = 256
    attempts = 1
    licence = ""

    def __init__(self, settings: ModelConfig, source: str, target: str) -> None:
        self.settings = settings
        self.details = {"model": settings.model.resolve().name}
        self.counts: Counter[str] = Counter()
        self.fingerprint = f"{self.name} {settings} {source} {target}"
        self.subwords = Subwords(settings, source, target)

    @abstractmethod
    def generate(self, sources: Sequence[list[str]], longest: int) -> list[list[str]]:
        """Translate tokens into at most `longest` tokens."""

    @abstractmethod
    def score(self, sources: Sequence[list[str]],
              targets: Sequence[list[str]]) -> list[list[float]]:
        """Return the log-probability of each token of given translations, in nats, and their end's.

        Args:
            sources: tokens as `Subwords.encode` returns them.
            targets: likewise from `Subwords.encode_target`.
        """

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate the sentences that fit the model."""
        sources = [self.subwords.encode(sentence) for sentence in sentences]
        limit = self.subwords.max_length
        fitting = [source for source in sources if len(source) <= limit]
        # A longer translation is a loop; some pairs of languages need twice the source.
        longest = 3 * max(map(len, fitting), default=0) + 20
        # The decoder's start takes room too.
        longest = min(longest, (self.subwords.positions or longest + 2) - 2)
        generated = iter(self.generate(fitting, longest) if fitting else ())
        translations = []
        for source in sources:
            if len(source) > limit:
                fault = f"it has {len(source)} tokens, the model takes {limit}"
            elif self.subwords.tokenizer.eos_token in (tokens := next(generated))[1:]:
                translations.append(Translation(self.subwords.decode(tokens), engine=self.name))
                continue
            else:
                fault = f"the model does not find an end; try another {setting('beam_size')}"
            translations.append(Translation("", fault=fault))
        return translations


class CTranslate2Translator(NeuralTranslator):
    """Translator with a model directory that ct2-transformers-converter wrote."""

    name = "ctranslate2"

    def __init__(self, settings: ModelConfig, source: str, target: str) -> None:
        require_extra("ctranslate2", f"{setting('engine')} ctranslate2")
        import ctranslate2

        super().__init__(settings, source, target)
        # CTranslate2 reads a token that it does not know as `<unk>`, and without its language marks
        # a model writes nonsense.
        model = settings.model
        known: set[str] = set()
        for path in sorted(model.glob("*_vocabulary.*")):
            with reading(path, "no vocabulary could be loaded", "convert the model again"):
                content = path.read_text("utf-8")
                known.update(json.loads(content) if path.suffix == ".json"
                             else content.split("\n"))
        if not known:
            check_converted(model)
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

    def score(self, sources: Sequence[list[str]],
              targets: Sequence[list[str]]) -> list[list[float]]:
        """Score given translations; CTranslate2 adds their end itself."""
        results = self._model.score_batch(
            list(sources), [target[:-1] for target in targets],
            max_batch_size=self.settings.batch_tokens, batch_type="tokens", max_input_length=0)
        return [result.log_probs for result in results]


class Subwords:
    """Conversion between sentences and a model's tokens.

    Args:
        settings: names the tokenizer, or else the model.
        source: ISO 639-1 code.
        target: ISO 639-1 code.

    Attributes:
        prefix: language tokens that begin every source sentence.
        target_token: language token that begins every translation, where the model expects one.
        positions: tokens that the model has room for, where that is known.
        max_length: tokens of the longest source sentence, language tokens included.
    """

    def __init__(self, settings: ModelConfig, source: str, target: str) -> None:
        self._directory = settings.tokenizer or settings.model
        self.tokenizer = _load(self._directory)
        self.vocabulary: dict[str, int] = {
            **self.tokenizer.get_vocab(), **getattr(self.tokenizer, "lang_token_to_id", {})}
        config = read_config(self._directory) if (self._directory / CONFIG).is_file() else {}
        positions = config.get("max_position_embeddings") or self.tokenizer.model_max_length
        self.positions = None if positions > sys.maxsize // 2 else int(positions)
        self.max_length = settings.max_length or self.positions or 0
        if not self.max_length:
            raise CheckpointError(f"{self._directory}: does not say how long a sentence may be; "
                                  f"{setting('max_length')} does")
        self.prefix: list[str] = []
        self.target_token: str | None = None
        if any(_LANGUAGE_TOKEN.fullmatch(token) for token in self.vocabulary):
            token = self._language_token(target, settings.target_code, "target_code")
            if token.startswith(_BEFORE_SOURCE):
                self.prefix = [token]
            else:
                self.prefix = [self._language_token(source, settings.source_code, "source_code")]
                self.target_token = token
        elif settings.source_code or settings.target_code:
            raise CheckpointError(f"{self._directory}: knows no languages by name, it has one "
                                  f"pair; leave out {setting('source_code')} and "
                                  f"{setting('target_code')}")
        self._special = {*self.tokenizer.all_special_tokens, *self.prefix, self.target_token}

    def _language_token(self, language: str, code: str | None, option: str) -> str:
        """Find the token of a language."""
        short, long = primary_language(code or language), code or three_letters(language)
        names = [code] if code else [nllb_code(language)]
        names += [f"__{short}__", f">>{long}<<", f">>{short}<<", f"<2{short}>"]
        for name in names:
            if name in self.vocabulary:
                return name
        some = sorted(token for token in self.vocabulary if _LANGUAGE_TOKEN.fullmatch(token))[:4]
        raise CheckpointError(f"{self._directory}: found no language token for "
                              f"{code or language!r}, only some like {', '.join(some)}; "
                              f"{setting(option)} names one")

    def encode(self, sentence: str) -> list[str]:
        """Turn a sentence into tokens: language tokens, the sentence, the end of sentence."""
        ids = self.tokenizer(sentence, add_special_tokens=False, verbose=False)["input_ids"]
        return [*self.prefix, *self.tokenizer.convert_ids_to_tokens(ids), self.tokenizer.eos_token]

    def encode_target(self, sentence: str) -> list[str]:
        """Turn a translation into tokens: its language token, the sentence, the end of sentence."""
        # Marian alone has other subwords for the target.
        texts = {"text" if self.target_token else "text_target": sentence}
        ids = self.tokenizer(**texts, add_special_tokens=False, verbose=False)["input_ids"]
        return [*([self.target_token] if self.target_token else []),
                *self.tokenizer.convert_ids_to_tokens(ids), self.tokenizer.eos_token]

    def decode(self, tokens: Sequence[str]) -> str:
        """Join the tokens of a translation, language tokens and ends left out."""
        plain = [token for token in tokens if token not in self._special]
        return " ".join(self.tokenizer.convert_tokens_to_string(plain).split())


def _load(directory: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    with reading(directory, "found no tokenizer that can be loaded",
                 f"{setting('tokenizer')} names the directory of the original model"), \
            warnings.catch_warnings():
        # Marian's normaliser is not used for encoding.
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        return AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False)
