"""Metadata of cards: what the Hub takes and refuses, without asking it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard, constants

from bmtools.errors import BmtoolsError
from bmtools.io.provenance.licence_names import normal_name
from bmtools.study.cards.card import make_card
from bmtools.study.cards.metadata import check_metadata

RESULT = {"task": {"type": "fill-mask"}, "dataset": {"type": "a/b", "name": "B"},
          "metrics": [{"type": "f1", "value": 0.5}]}
# As cards on the Hub have it, and as hub-docs explain it.
GOOD: list[dict[str, Any]] = [
    {}, {"language": "it"}, {"language": ["it", "pt", "zh-Hant"]}, {"license": "cc-by-nc-sa-4.0"},
    {"license": "other", "license_name": "coqui-public-model-license", "license_link": "LICENSE"},
    {"base_model": "dbmdz/bert-base-italian-xxl-uncased", "base_model_relation": "finetune"},
    {"base_model": ["a/b", "bert-base-uncased"], "base_model_relation": "merge"},
    {"datasets": ["imdb", "HuggingFaceH4/no_robots"], "metrics": ["f1"], "thumbnail": "a.png"},
    {"co2_eq_emissions": 12.5}, {"co2_eq_emissions": {
        "emissions": 3, "source": "code carbon", "training_type": "pre-training",
        "geographical_location": "Quebec, Canada", "hardware_used": "8 v100 GPUs"}},
    {"model-index": [{"name": "m", "results": [RESULT]}], "pipeline_tag": "fill-mask"}]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"language": "Italian"}, "language"), ({"license": "CC-BY-4.0"}, "license"),
    ({"license": "other"}, "license_name"), ({"base_model": "/home/anna/model"}, "base_model"),
    ({"base_model_relation": "distilled"}, "base_model_relation"),
    ({"datasets": ["my data"]}, "datasets"), ({"pipeline_tag": "ner"}, "pipeline_tag"),
    ({"co2_eq_emissions": {"kg": 1}}, "kg"), ({"co2_eq_emissions": -1.0}, "co2_eq"),
    ({"tags": [1]}, "tags"), ({"model-index": [{"name": "m", "results": []}]}, "results"),
    ({"model-index": [{"results": [RESULT]}]}, "name"),
    ({"model-index": [{"name": "m", "results": [{**RESULT, "metrics": [{"type": "f1"}]}]}]},
     "value")]


@pytest.mark.parametrize("metadata", GOOD, ids=str)
def test_good_metadata_is_taken(metadata: dict[str, Any]) -> None:
    check_metadata(metadata)


@pytest.mark.parametrize(("metadata", "key"), BAD, ids=str)
def test_bad_metadata_is_refused_by_its_key(metadata: dict[str, Any], key: str) -> None:
    with pytest.raises(BmtoolsError, match=key):
        check_metadata(metadata)


@pytest.mark.parametrize("stated", ["CC-BY-4.0", "cc by-nc 4.0", "Apache 2.0", "MIT License",
                                    "CC0", "GPL v3"])
def test_licences_that_records_name_are_the_hubs(stated: str) -> None:
    check_metadata({"license": normal_name(stated).lower()})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """Run a server in place of the Hub, which refuses cards without a licence."""
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


def test_the_hub_is_asked_by_its_library_alone(
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
