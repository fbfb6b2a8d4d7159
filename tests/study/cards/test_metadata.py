"""Metadata of cards that the Hub accepts or rejects, tested without the Hub."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard, constants

from bmtools.io.provenance.licence_names import normal_name
from bmtools.study.cards.card import make_card

LICENCES = files("bmtools.study.cards").joinpath("license.txt").read_text().split()


@pytest.mark.parametrize("stated", ["CC-BY-4.0", "cc by-nc 4.0", "Apache 2.0", "MIT License",
                                    "CC0", "GPL v3"])
def test_recorded_licences_are_known_to_the_hub(stated: str) -> None:
    assert normal_name(stated).lower() in LICENCES


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """Run a server instead of the Hub, which rejects cards without a licence."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.append({"path": self.path, **body})
            self.send_response(200 if "license: " in body["content"] else 400)
            self.end_headers()
            self.wfile.write(b'"license" is required')

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield received
    server.shutdown()
    thread.join()
    server.server_close()


def test_only_the_hub_library_contacts_the_hub(
        hub: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"architectures": ["BertForMaskedLM"]}')
    (tmp_path / "about.toml").write_text('licence = "CC-BY-4.0"\n')
    made = make_card(tmp_path / "model", about=tmp_path / "about.toml")
    assert hub == []
    ModelCard(made.card).validate()
    [received] = hub
    assert (received["path"], received["repoType"]) == ("/api/validate-yaml", "model")
    assert received["content"].startswith("---\n")
    with pytest.raises(ValueError, match="required"):
        ModelCard(make_card(tmp_path / "model").card).validate()
