"""Working and failing servers with OpenAI's interface."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from bmtools.errors import BmtoolsError
from bmtools.translation.engines import http
from bmtools.translation.engines.http import HttpTranslator, clean
from bmtools.translation.settings import EngineConfig

Answer = Callable[[dict[str, Any], int], Any]


class Server:
    """A server with configurable answers that records its requests.

    Attributes:
        answer: called with the body of a request and its number; returns a text, or a tuple of
            status, content and headers, or None to close the connection.
        bodies: bodies of the requests.
        headers: headers of the requests.
    """

    def __init__(self) -> None:
        self.answer: Answer = lambda body, _: body["messages"][0]["content"].splitlines()[-1]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.busiest = self._busy = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.bodies.append(body)
                server.headers.append(dict(self.headers))
                server._busy += 1
                server.busiest = max(server.busiest, server._busy)
                status, said, *more = _as_status(server.answer(body, len(server.bodies)))
                server._busy -= 1
                if said is None:
                    return  # closes the connection
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                if callable(said):
                    return said(self)
                self.wfile.write(said if isinstance(said, bytes) else json.dumps(said).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


def _as_status(said: Any) -> tuple[Any, ...]:
    if isinstance(said, str):
        said = {"choices": [{"message": {"content": said}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    return said if isinstance(said, tuple) else (200, said)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(http, "_FIRST_WAIT_SECONDS", 0.001)
    one = Server()
    yield one
    one.server.shutdown()
    one.server.server_close()


def _translator(server: Server, **settings: Any) -> HttpTranslator:
    return HttpTranslator(EngineConfig("http", "en", "it", url=server.url, served_model="gemma",
                                       **{"retries": 2, **settings}))


def test_each_sentence_is_a_request_with_languages_and_model(server: Server) -> None:
    translator = _translator(server, prompt="{source}>{target}: {x} {sentence}")
    server.answer = lambda body, _: body["messages"][0]["content"].upper()
    [one, two] = translator.translate(["Pain.", "A {sentence}."])
    assert (one.text, two.text) == ("ENGLISH>ITALIAN: {X} PAIN.",
                                    "ENGLISH>ITALIAN: {X} A {SENTENCE}.")
    assert one.engine == "http"
    [body, _] = server.bodies
    assert (body["model"], body["temperature"]) == ("gemma", 0)
    assert body["max_tokens"] in (69, 64 + len("A {sentence}."))
    assert translator.counts == {"requests": 2, "prompt tokens": 14, "answer tokens": 4}
    translator.translate(["Pain."], attempt=1)
    assert server.bodies[-1]["temperature"] > 0


def test_parallel_requests_keep_the_order(server: Server) -> None:
    def answer(body: dict[str, Any], number: int) -> str:
        time.sleep(0.02 if number % 2 else 0)
        return str(body["messages"][0]["content"].splitlines()[-1])

    server.answer = answer
    sentences = [f"Sentence {number}" for number in range(12)]
    found = _translator(server, workers=3).translate(sentences)
    assert [one.text for one in found] == sentences
    assert 1 < server.busiest <= 3


@pytest.mark.parametrize("trouble", [
    (429, {}), (500, b"oops"), (503, b""), (200, b"<html>"), (200, b"[1]"), None],
    ids=["429", "500", "503", "garbage", "list", "closed"])
def test_failed_requests_are_repeated(server: Server, trouble: Any) -> None:
    server.answer = lambda _, number: trouble if number < 3 else "Dolore."
    translator = _translator(server)
    assert [one.text for one in translator.translate(["Pain."])] == ["Dolore."]
    assert translator.counts["repeated requests"] == 2
    server.answer = lambda body, _: trouble if "BAD" in str(body) else "Dolore."
    if trouble is None:
        with pytest.raises(BmtoolsError, match=r"chat/completions: .*, 3 times; start the server"):
            translator.translate(["BAD"])
        return
    [bad, good] = _translator(server, workers=1).translate(["BAD", "Pain."])
    assert "the server returned no translation: " in bad.fault and "3 times" in bad.fault
    assert good.text == "Dolore."


def test_missing_answer_is_a_fault(server: Server) -> None:
    server.answer = lambda *_: time.sleep(0.3)
    [one] = _translator(server, timeout_seconds=0.05, retries=1).translate(["Pain."])
    assert one.fault.endswith("no answer within 0.05 seconds, 2 times")


def test_retry_after_is_respected(
        server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(http, "sleep", waits.append)
    server.answer = lambda _, number: (429, {}, {"Retry-After": "1"}) if number == 1 else "Dolore."
    assert _translator(server).translate(["Pain."])[0].text == "Dolore."
    assert waits == [1.0]


def test_repeated_failures_stop_the_run(server: Server) -> None:
    server.answer = lambda *_: (500, b"no memory")
    with pytest.raises(BmtoolsError, match="HTTP 500 Internal Server Error: no memory, 1 times"):
        _translator(server, retries=0).translate(["Pain."] * 20)
    assert len(server.bodies) < 20


@pytest.mark.parametrize("status", [401, 404, 302])
def test_permanent_errors_are_not_retried(
        server: Server, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "sesame")
    server.answer = lambda *_: (status, b"wrong key sesame", {"Location": "http://example.org"})
    with pytest.raises(BmtoolsError) as caught:
        _translator(server, key_variable="SERVER_KEY").translate(["Pain."])
    assert "check url, served_model and key_variable" in str(caught.value)
    assert "wrong key ***" in str(caught.value) and "sesame" not in str(caught.value)
    assert server.headers[0]["Authorization"] == "Bearer sesame"
    assert len(server.bodies) == 1


def test_key_is_only_sent_if_named(
        server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    _translator(server).translate(["Pain."])
    assert "Authorization" not in server.headers[0]
    with pytest.raises(BmtoolsError, match="the environment variable NO_KEY is empty"):
        _translator(server, key_variable="NO_KEY")


def test_truncated_answer_is_a_fault(server: Server) -> None:
    server.answer = lambda *_: {"choices": [{"message": {"content": "Do"},
                                             "finish_reason": "length"}]}
    [one] = _translator(server).translate(["Pain."])
    assert one.fault.endswith("the answer was cut off; raise answer_tokens")
    server.answer = lambda *_: {"choices": []}
    [one] = _translator(server).translate(["Pain."])
    assert one.fault.endswith("found \"{'choices': []}\", expected choices with a message")


@pytest.mark.parametrize(("answer", "text"), [
    (" Il dolore. \n", "Il dolore."), ("```\nIl dolore.\n```", "Il dolore."),
    ("```text\nIl dolore.\n```", "Il dolore."), ('"Il dolore."', "Il dolore."),
    ("«Il dolore.»", "Il dolore."), ("<think>Well,\nso.</think>\n\nIl dolore.", "Il dolore."),
    ('"Il" dolore "vero"', '"Il" dolore "vero"'), ("“A” e “B” o “C”", "“A” e “B” o “C”"),
    ('"Il “dolore” vero"', "Il “dolore” vero"), ("'L'asma.'", "L'asma."),
    ("Il dolore: 3.", "Il dolore: 3.")])
def test_wrapping_around_a_translation_is_removed(answer: str, text: str) -> None:
    assert clean(answer, "Pain.") == text
    assert clean('"Sì"', '"Yes"') == '"Sì"'


@pytest.mark.parametrize("answer", [
    "", "Il dolore.\n\nNote: literal.", "Here is the translation: Il dolore.", "Sure! Il dolore.",
    "Translation: Il dolore.", "I'm sorry, but I can't.", "I cannot translate this.",
    "Il dolore. (Note: this is literal.)", "The translated text is: Il dolore."])
def test_comments_on_a_translation_are_rejected(answer: str) -> None:
    with pytest.raises(http._Refused):
        clean(answer, "Pain.")


@pytest.mark.parametrize(("sentence", "answer"), [
    ("Certamente la dose è stata ridotta.", "Certainly, the dose was reduced."),
    ("Naturalmente, il dolore passa.", "Of course, the pain passes."),
    ("Ecco il piano: riposo.", "Here is the plan: rest."),
    ("Certo! Il dolore passa.", "Sure! The pain passes."),
    ("Mi dispiace, signora.", "I'm sorry, madam."),
    ("La dose è di 5 mg (si noti l'unità).", "The dose is 5 mg (note that unit)."),
    ("La traduzione ha due fasi\uff1ainizio e fine.", "Translation has two steps: start, end.")])
def test_english_explained_by_the_sentence_is_accepted(sentence: str, answer: str) -> None:
    assert clean(answer, sentence, "en-GB") == answer


@pytest.mark.parametrize("answer", [
    "Sure! The pain.", "Certainly, here is the translation: The pain.", "Translation: The pain.",
    "Here's the English translation: The pain.", "I'm sorry, but I can't translate this.",
    "The pain. (Note: this is literal.)", "The translated text is: The pain."])
def test_comments_before_english_are_rejected(answer: str) -> None:
    with pytest.raises(http._Refused):
        clean(answer, "Il dolore.", "en")


@pytest.mark.parametrize("status", [200, 500])
def test_slow_response_ends_at_the_timeout(server: Server, status: int) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            for _ in range(100):
                handler.wfile.write(b" ")
                time.sleep(0.02)

    server.answer = lambda *_: (status, drip)
    begin = time.monotonic()
    [one] = _translator(server, timeout_seconds=0.1, retries=0).translate(["Pain."])
    assert one.fault.endswith("no answer within 0.1 seconds, 1 times")
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize(("settings", "message"), [
    ({"url": "http://me:word@host"}, "url: found a password, expected an address without"),
    ({"prompt": "Translate!"}, "prompt: found Translate!, expected a text with {sentence}")])
def test_impossible_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EngineConfig("http", "en", "it", **settings)
