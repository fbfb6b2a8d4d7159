"""Commands that read a file each, small enough to run thousands of times, and their inputs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bmtools.evaluation.settings import TASKS
from bmtools.io.output import write_records

TEXTS = ("Il paziente ha diabete mellito e asma.", "Il cuore pompa il sangue nelle arterie.",
         "L'asma riduce il respiro del paziente.")
_RECORDS = [{"id": str(number), "text": text, "lang": "it", "meta": {"n": [number, 0.5]}}
            for number, text in enumerate(TEXTS)]
_TAGGED = [{"id": "0", "text": "Il paziente ha asma.",
            "entities": [{"start": 15, "end": 19, "type": "DIS", "text": "asma"}]}]
_MASKINGS = [{"id": "0", "text": "Il [MASK] ha diabete mellito e asma.", "target": "paziente"}]
_SCORES = [{"model": name, "metric": "pppl", "pppl": 12.5, "sentences": 3} for name in "ab"]
_ANNOTATED = [{
    "id": str(number), "text": text, "label": "a", "labels": ["a", "b"],
    "meta": {"document": "d", "question": "q", "exact_answer": [["ha"], "ha"]},
    "score": 1.5, "answers": [{"text": "ha", "start": text.find("ha")}],
    "entities": [{"id": "T1", "start": 0, "end": 2, "type": "X"},
                 {"id": "T2", "start": 3, "end": 8, "type": "Y"}],
    "relations": [{"head": "T1", "tail": "T2", "type": "R"}]} for number, text in enumerate(
    TEXTS[:1] * 2)]
_PREDICTED = [{"id": record["id"], "text": record["text"], "predicted": {
    **{key: record[key] for key in ("label", "labels", "score", "entities", "relations")},
    "answers": [{**record["answers"][0], "score": 0.5}]}} for record in _ANNOTATED]
_CITATION = """<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">{0}</PMID>
<Article><Journal><Title>J</Title><JournalIssue><PubDate><Year>1998</Year></PubDate></JournalIssue>
</Journal><ArticleTitle>Asthma &amp; age.</ArticleTitle><Abstract><AbstractText Label="AIM">To
breathe.</AbstractText><AbstractText Label="END">Breath<sub>2</sub>.</AbstractText></Abstract>
<Language>eng</Language></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>
"""
_TMX = """<?xml version="1.0"?><tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>Il
<bpt>x</bpt>paziente.</seg></tuv><tuv xml:lang="it"><seg>Il paziente.</seg></tuv></tu></body></tmx>
"""
_PHASES = """title = "Two phases"
notes = ["one", "two"]
[run]
seed = 3
[common]
batch_size = 4
[[phases]]
name = "short"
steps = 1
max_length = 16
mask_rate = 0.15
mixture = { text = 1.0 }
[[phases]]
name = "long"
steps = 1
max_length = 32
[phases.mixture]
text = { weight = 0.5, end = 1.0, epochs = 2.0 }
"""
_FILES = {
    "in.txt": "\n\n".join(TEXTS), "in.xml": _CITATION.format(1), "memory.tmx": _TMX,
    "in.conll": "-DOCSTART-\n\nIl O\npaziente O\nha O\nasma B-DIS\n. O\n\nIl O\ncuore B-ORG\n",
    "in.standoff": "1|Il paziente ha asma.\n2|Il cuore pompa.\n",
    "mentions.txt": "1\t15\t19\tasma\tDIS\n2\t3\t8\tcuore\tORG\n",
    "in.csv": 'n;note;kind;score\n1;"Il paziente; ha asma.";a;0.5\n2;Febbre.;b;1\n',
    "hoc.tsv": "index\ttext\tlabels\r\n1_s0\tFebbre.\ta,b\r\n1_s1\tAsma \"alta\".\t\r\n",
    "squad.json": json.dumps({"data": [{"title": name, "paragraphs": [{
        "context": TEXTS[0], "qas": [{"id": name, "question": "Che ha?", "answers": [
            {"text": "asma", "answer_start": 33}]}]}]} for name in "ab"]}, indent=1),
    "bioasq.json": json.dumps({"questions": [{
        "id": "a", "body": "Che ha?", "type": "factoid", "exact_answer": [["asma", "Asma"]],
        "snippets": [{"text": text} for text in TEXTS]}]}, indent=1),
    "biobit.json": json.dumps({"train": [{"ID": "a", "context": TEXTS[0], "question": "Che ha?",
                                          "answer": "Asma"}], "dev": []}, indent=1),
    "pubmedqa.json": json.dumps({"1": {"QUESTION": "Ha asma?", "CONTEXTS": TEXTS[:2],
                                       "LABELS": ["A", "B"], "final_decision": "yes"}}, indent=1),
    "nli.jsonl": json.dumps({"sentence1": TEXTS[0], "sentence2": TEXTS[1], "pairID": "a",
                             "gold_label": "neutral"}) + "\n",
    "curated.json": json.dumps({"data": [{
        "original": TEXTS[0], "masked": ["Il [MASK] ha diabete mellito e asma."],
        "type": "a", "source": "b"}]}, indent=1),
    "memory.tsv": "en\tit\nIl paziente.\tIl paziente.\nFever.\tFebbre.\n",
    "words.txt": "asma\ndiabete mellito\n", "phases.toml": _PHASES,
    "suite.toml": 'title = "Own"\nsource = "A, Table 1"\nbaseline = "old"\n'
                  '[[sets]]\nname = "Organs"\ntask = "ner"\nmetrics = ["f1"]\n'
                  '[[averages]]\nname = "Mean"\n[[published]]\ntable = "1"\n'
                  'main = true\nmodels = ["old"]\nscores = {Organs = [80.5]}\n',
    "config.toml": 'lang = "it"\n[text]\nsource = "notes"\nduplicates = "refuse"\n'}
_LINES: dict[str, list[dict[str, Any]]] = {
    "in.jsonl": _RECORDS, "tagged.jsonl": _TAGGED, "maskings.jsonl": _MASKINGS,
    "annotated.jsonl": _ANNOTATED, "predicted.jsonl": _PREDICTED,
    "suite.jsonl": [{"model": "a-0", "task": "ner", "seed_of": "a", "f1": 0.5},
                    {"model": "b", "test_f1": {"mean": 0.7, "median": 0.7, "deviation": 0.1}}],
    "scores.jsonl": _SCORES, "notes.jsonl": [{"id": "0", "text": "Il paziente.", "lang": "en"}]}


@dataclass(frozen=True)
class Reader:
    """A command and the file of it that gets damaged.

    Args:
        file: relative path.
        command: its arguments, which write nowhere but to stdout or OUT.
        packed: damage may not change a byte of what is read.
        weight: share of the inputs; slow commands have less.
        said: parts of messages that need not name the file.
    """

    file: str
    command: str
    packed: bool = False
    weight: float = 1.0
    said: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """File and command, for reports."""
        return f"{self.file}: {' '.join(self.command.split()[:2]).split(' -')[0]}"


_STEPS = "--steps 1 --max-length 16 --batch-size 2 -o OUT"
_PPPL = "score-pppl --model model in.jsonl"
_MRR = "score-mrr --model model maskings.jsonl"
_PRETRAIN = f"pretrain --model model in.jsonl {_STEPS}"
_TRANSLATE = "translate --engine memory --source-lang en --target-lang it --memory"
# What can be loaded, and trained with no result.
_DIVERGED = ("the loss is nan", "the loss is inf", "found no list of layers")
READERS = (
    Reader("in.txt", "import text in.txt --paragraphs --sentences --lang it -o OUT"),
    Reader("in.xml", "import pubmed in.xml --titles --other-abstracts"),
    Reader("in.conll", "import conll in.conll --documents"),
    Reader("in.standoff", "import standoff in.standoff --annotations mentions.txt"),
    Reader("mentions.txt", "import standoff in.standoff --annotations mentions.txt"),
    Reader("curated.json", "import curated curated.json"),
    Reader("in.csv", "import table in.csv --text-column note --id-column n --label-column kind "
           "--score-column score"),
    Reader("hoc.tsv", "import hoc hoc.tsv"),
    Reader("squad.json", "import squad squad.json"),
    Reader("bioasq.json", "import bioasq bioasq.json --type factoid"),
    Reader("biobit.json", "import biobit-qa biobit.json --split train"),
    Reader("pubmedqa.json", "import pubmedqa pubmedqa.json"),
    Reader("nli.jsonl", "import nli nli.jsonl"),
    Reader("in.jsonl", "import jsonl in.jsonl -o OUT"),
    Reader("in.jsonl.gz", "import jsonl in.jsonl.gz", packed=True),
    Reader("in.jsonl.zst", "import jsonl in.jsonl.zst", packed=True),
    Reader("in.jsonl", "find-contexts --words words.txt --processes 1 in.jsonl"),
    Reader("words.txt", "find-contexts --words words.txt --processes 1 in.jsonl"),
    Reader("in.jsonl", "compare-vocab --vocab tokenizer in.jsonl"),
    Reader("in.jsonl", "build-vocab --size 120 --allow-fewer -o OUT in.jsonl", weight=.5),
    Reader("in.jsonl", "tokenize --tokenizer tokenizer --processes 1 -o OUT in.jsonl", weight=.5),
    Reader("maskings.jsonl", _MRR, weight=.5),
    Reader("words.txt", "score-mrr --model model --terms words.txt in.jsonl", weight=.5,
           said=("in the input",)),
    Reader("tagged.jsonl", "predict --model tagger tagged.jsonl", weight=.5),
    Reader("scores.jsonl", "table --columns pppl,sentences scores.jsonl",
           said=("no line has",)),
    *(Reader(file, f"score-tasks annotated.jsonl predicted.jsonl --resamples 9 --task {task}",
             weight=.2)
      for task in TASKS for file in ("annotated.jsonl", "predicted.jsonl")),
    Reader("suite.jsonl", "score-suite --suite suite.toml Organs=suite.jsonl"),
    Reader("suite.toml", "score-suite --suite suite.toml Organs=suite.jsonl --table",
           said=("bmtools: --",)),
    Reader("mrr.jsonl", f"{_MRR} --fail-below-baseline mrr.jsonl", weight=.5),
    Reader("memory.tmx", f"{_TRANSLATE} memory.tmx notes.jsonl"),
    Reader("memory.tsv", f"{_TRANSLATE} memory.tsv notes.jsonl"),
    Reader("config.toml", "import text in.txt --config config.toml"),
    Reader("phases.toml", "pretrain --model model in.jsonl --phases phases.toml -o OUT",
           said=("bmtools: --", "bmtools: phase ")),
    Reader("tokenizer/tokenizer.json", "compare-vocab --vocab tokenizer in.jsonl"),
    Reader("tokenizer/tokenizer_config.json", "compare-vocab --vocab tokenizer in.jsonl"),
    Reader("tokenizer/tokenizer.json",
           "tokenize --tokenizer tokenizer --processes 1 -o OUT in.jsonl"),
    Reader("vocabulary/bmtools.json", "compare-vocab --vocab vocabulary in.jsonl"),
    Reader("bare/vocab.txt", "compare-vocab --vocab bare in.jsonl"),
    *(Reader(f"model/{name}", command, said=_DIVERGED) for command in (_PPPL, _PRETRAIN)
      for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                   "bmtools.json")),
    Reader("sharded/model.safetensors.index.json", _PPPL.replace("model in", "sharded in")),
    Reader("tagger/config.json", "predict --model tagger tagged.jsonl"),
    Reader("tagger/model.safetensors", "predict --model tagger tagged.jsonl"),
    Reader("tagger/bmtools.json", "predict --model tagger tagged.jsonl"),
    Reader("shards/shard-00000.safetensors", f"pretrain --model model shards {_STEPS}"),
    Reader("shards/bmtools.json", f"pretrain --model model shards {_STEPS}"),
)


def make_kit(folder: Path, run: Callable[..., Any], **directories: Path) -> None:
    """Make the files of all readers.

    Args:
        folder: empty.
        run: runs a command.
        directories: to copy, by name: tokenizer, model and tagger.
    """
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, lines in _LINES.items():
        write_records(lines, str(folder / name))
    many = [{**_RECORDS[number % 3], "id": str(number)} for number in range(300)]
    for ending in ("gz", "zst"):
        write_records(many, str(folder / f"in.jsonl.{ending}"))
    for name, directory in directories.items():
        shutil.copytree(directory, folder / name)
    (folder / "bare").mkdir()
    shutil.copy(folder / "tokenizer" / "vocab.txt", folder / "bare")
    _make_sharded(folder / "model", folder / "sharded")
    run("build-vocab", "--size", "120", "--allow-fewer", "-o", folder / "vocabulary",
        folder / "in.jsonl")
    run("tokenize", "--tokenizer", folder / "tokenizer", "--processes", "1", "-o",
        folder / "shards", folder / "in.jsonl")
    run("score-mrr", "--model", folder / "model", "-o", folder / "mrr.jsonl",
        folder / "maskings.jsonl")


def _make_sharded(model: Path, sharded: Path) -> None:
    """Copy a checkpoint with its weights under an index, as large models have them."""
    from safetensors import safe_open

    shutil.copytree(model, sharded)
    weights = (sharded / "model.safetensors").rename(sharded / "model-00001-of-00001.safetensors")
    with safe_open(weights, "np") as opened:
        index = {"metadata": {}, "weight_map": dict.fromkeys(opened.keys(), weights.name)}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
