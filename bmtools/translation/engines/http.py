"""Engine that uses a server with OpenAI's interface, such as llama.cpp or vLLM."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from threading import Lock
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from bmtools.errors import BmtoolsError, setting
from bmtools.io.failures import brief
from bmtools.records import JsonObject
from bmtools.text.languages import primary_language
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import EngineConfig

_WORKERS = 4
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 60.0
_MOST_BYTES = 1 << 24
_MOST_FAILURES = 8  # consecutive failures after which the server is blamed, not a sentence
_BUSY = frozenset((408, 409, 425, 429, *range(500, 600)))
_REFUSES_SENTENCE = frozenset((400, 413, 422))
_TEMPERATURES = (0.0, 0.5)
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "„": "“", "`": "`", "\u2018": "\u2019"}
# Comments of a model instead of a translation.
_TALK = re.compile(
    r"\A\W*(?:(?:sure|certainly|of course)\b[,!.:]|here(?: is|'s)\b[^:]{0,60}:"
    r"|(?:the )?translat(?:ion|ed \w+)(?: (?:is|in|into|to|from)\b[^:]{0,60})?:"
    r"|i(?:'m| am) sorry|i (?:can(?:no|')t|am unable to) (?:translate|provide|assist|help))",
    re.IGNORECASE)
# Comments that cannot be the start of a translation into English.
_TALK_IN_ENGLISH = re.compile(
    r"\A\W*(?:(?:sure|certainly|of course)!|(?:(?:sure|certainly|of course)\b[,.:]\s*)?"
    r"(?:here(?: is|'s)\b[^:]{0,40}\b)?(?:the )?(?:english )?translat(?:ion|ed \w+)"
    r"(?: (?:is|in|into|to|from)\b[^:]{0,60})?:"
    r"|(?:i(?:'m| am) sorry, (?:but )?)?i (?:can(?:no|')t|am unable to) (?:translate|assist))",
    re.IGNORECASE)
_REMARK = re.compile(r"\((?:note\b|translat)[^)]*\)\W*\Z", re.IGNORECASE)
_PARENTHESIS = re.compile(r"[)\uff09]\W*\Z")


class _Refused(Exception):
    """An answer without a translation; the message states the reason."""


class _Busy(_Refused):
    """A request to send again.

    Args:
        reason: reason for sending it again.
        seconds: waiting time that the server requests, or 0.
        is_down: whether no server answered.
    """

    def __init__(self, reason: str, seconds: float = 0, is_down: bool = False) -> None:
        super().__init__(reason)
        self.seconds, self.is_down = seconds, is_down


class _NoRedirect(HTTPRedirectHandler):
    """Handler that follows no redirects, because other servers must not get texts or keys."""

    def redirect_request(self, *_arguments: object) -> None:
        return None


class HttpTranslator(Translator):
    """Translator that sends each sentence to a server, several at a time.

    Args:
        config: address, model, prompt and limits.

    Raises:
        BmtoolsError: the environment variable of the key is empty.
    """

    batch_sentences = 64
    attempts = len(_TEMPERATURES)

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config, model=config.served_model or "")
        self._key = os.environ.get(config.key_variable or "", "")
        if config.key_variable and not self._key:
            raise BmtoolsError(f"{setting('key_variable')}: the environment variable "
                               f"{config.key_variable} is empty; expected the server's key in it")
        self._url = f"{(config.url or '').rstrip('/')}/chat/completions"
        self._prompt = config.prompt.replace("{source}", _name_of(config.source_lang)).replace(
            "{target}", _name_of(config.target_lang))
        self.fingerprint = json.dumps(["http", self._url, config.served_model, self._prompt,
                                       config.answer_tokens])
        self._opener = build_opener(_NoRedirect)
        self._lock = Lock()
        self._failures = 0

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, one per request.

        Raises:
            BmtoolsError: the server cannot be used, or rejects many consecutive sentences.
        """
        threads = ThreadPoolExecutor(self.config.workers or _WORKERS)
        try:
            return list(threads.map(
                lambda sentence: self._translate(sentence, _TEMPERATURES[attempt]), sentences))
        finally:
            threads.shutdown(cancel_futures=True)

    def _translate(self, sentence: str, temperature: float) -> Translation:
        body = {
            "model": self.config.served_model, "temperature": temperature, "seed": 0,
            "max_tokens": self.config.answer_tokens or len(sentence) + 64,
            "messages": [{"role": "user",
                          "content": self._prompt.replace("{sentence}", sentence)}]}
        try:
            answer = self._answer(body)
            choice = answer["choices"][0]
            text = choice["message"]["content"]
            if choice.get("finish_reason") == "length":
                raise _Refused(f"the answer was cut off; raise {setting('answer_tokens')}")
            return Translation(clean(text, sentence, self.config.target_lang), engine=self.name)
        except _Refused as refused:
            fault = str(refused)
        except (LookupError, TypeError, AttributeError):
            fault = f"found {str(answer)[:80]!r}, expected choices with a message"
        return Translation("", fault=f"the server returned no translation: {fault}")

    def _answer(self, body: JsonObject) -> JsonObject:
        """Send a request until it is answered, with increasing waiting times."""
        for left in range(self.config.retries, -1, -1):
            try:
                answer = self._request(body)
                self._failures = 0
                return answer
            except _Busy as busy:
                reason, is_down = f"{busy}, {self.config.retries + 1} times", busy.is_down
                wait = _FIRST_WAIT_SECONDS * 2 ** (self.config.retries - left)
                if left:
                    self._count({"repeated requests": 1})
                    sleep(min(busy.seconds or wait, _LONGEST_WAIT_SECONDS))
            except _Refused as refused:
                reason, is_down = str(refused), False
                break
        self._failures += 1
        if is_down or self._failures >= _MOST_FAILURES:
            raise BmtoolsError(f"{self._url}: {reason}; start the server, or read its log")
        raise _Refused(reason)

    def _request(self, body: JsonObject) -> JsonObject:
        """Send a request once.

        Raises:
            _Busy: the server did not answer, or is busy.
            _Refused: the server rejects this sentence.
            BmtoolsError: the server rejects every request.
        """
        headers = {"Content-Type": "application/json",
                   **({"Authorization": f"Bearer {self._key}"} if self._key else {})}
        self._count({"requests": 1})
        latest = monotonic() + self.config.timeout_seconds
        try:
            try:
                with self._opener.open(Request(self._url, json.dumps(body).encode(), headers),
                                       timeout=self.config.timeout_seconds) as response:
                    content = _read(response, latest)
            except HTTPError as error:
                with error:
                    raise self._meaning(error, _read(error, latest)) from error
        except (OSError, HTTPException) as error:
            if isinstance(getattr(error, "reason", error), TimeoutError):
                raise _Busy(f"no answer within {self.config.timeout_seconds:g} "
                            "seconds") from error
            raise _Busy(brief(error), is_down=True) from error
        try:
            answer = json.loads(content)
            usage = answer.get("usage") or {}
        except (ValueError, AttributeError) as error:
            raise _Busy(f"found {content[:80]!r}, expected a JSON object") from error
        self._count({"prompt tokens": usage.get("prompt_tokens") or 0,
                     "answer tokens": usage.get("completion_tokens") or 0})
        return answer

    def _meaning(self, error: HTTPError, content: bytes) -> Exception:
        """Convert an HTTP error to an exception, without the key in the server's message."""
        said = " ".join(content.decode("utf-8", "replace").split())
        said = said.replace(self._key or "***", "***")[:200]
        fault = f"HTTP {error.code} {error.reason}: {said or 'no message'}"
        if error.code in _BUSY:
            seconds = error.headers.get("Retry-After", "")
            return _Busy(fault, float(seconds) if seconds.isdecimal() else 0)
        if error.code in _REFUSES_SENTENCE:
            return _Refused(fault)
        return BmtoolsError(f"{self._url}: {fault}; check {setting('url')}, "
                            f"{setting('served_model')} and {setting('key_variable')}")

    def _count(self, counts: dict[str, int]) -> None:
        with self._lock:
            self.counts.update(counts)


def _read(response: Any, latest: float) -> bytes:
    """Read a response, and stop at the latest time even if data still arrives slowly."""
    content = b""
    while len(content) < _MOST_BYTES and (part := response.read1(_MOST_BYTES - len(content))):
        content += part
        if monotonic() > latest:
            raise TimeoutError
    return content


def _name_of(code: str) -> str:
    """Return the English name of a language from Whisper's tokenizer, or its code if unknown."""
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    name = LANGUAGES.get(primary_language(code))
    return name.title() if name else code


def clean(answer: str, sentence: str, target: str = "") -> str:
    """Return the translation in an answer, without reasoning, fences or quotes around it.

    Args:
        answer: answer of the server.
        sentence: sentence that was sent.
        target: language of the translation; English translations may begin like a comment.

    Raises:
        _Refused: the answer is empty, has several lines or comments on the translation.
    """
    text = _THOUGHTS.sub("", answer).strip()
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    if len(text) > 1 and text[-1] == _QUOTES.get(text[0]) and sentence[:1] not in _QUOTES \
            and not _closes_early(text):
        text = text[1:-1].strip()
    if not text or "\n" in text:
        raise _Refused(f"found {len(text.splitlines())} lines, expected one")
    if _is_talk(text, sentence, target):
        raise _Refused(f"found {text[:60]!r}, expected only the translation")
    return " ".join(text.split())


def _is_talk(text: str, sentence: str, target: str) -> bool:
    """Return whether an answer comments on the translation, unlike the sentence."""
    if _REMARK.search(text) and not _PARENTHESIS.search(sentence):
        return True
    if primary_language(target) != "en":
        return bool(_TALK.search(text)) and not _TALK.search(sentence)
    said = _TALK_IN_ENGLISH.search(text)
    sign = said[0][-1] if said else ""
    return bool(said) and (sign.isalpha() or sign not in unicodedata.normalize("NFKC", sentence))


def _closes_early(text: str) -> bool:
    """Return whether the first quote inside a quoted text closes the opening quote."""
    first = re.search(f"[{text[0]}{text[-1]}]", text[1:-1])
    return first is not None and first[0] == text[-1] and bool(
        re.match(r"\S.(?!\w)", text[first.start():]))
