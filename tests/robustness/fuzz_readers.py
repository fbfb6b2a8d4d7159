"""Commands that each read a file, small enough to run thousands of times, and their inputs.

`fuzz_sets` contains formats for which there are real files.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustness.fuzz_documents import COMMANDS as DOCUMENTS
from robustness.fuzz_documents import write_documents
from robustness.fuzz_sets import REAL_FILES, Balance
from toy_study import lines_of_study, write_study

from bmtools.io.output import write_records
from bmtools.tasks.metrics.samples import NO_ENTITIES, TASK_METRICS

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
_UPDATE = """<?xml version="1.0"?><!DOCTYPE PubmedArticleSet PUBLIC "-//X" "http://nowhere/x.dtd">
<PubmedArticleSet><PubmedArticle><MedlineCitation VersionID="2"><PMID Version="2">1</PMID>
<DateRevised><Year>2001</Year><Month>2</Month></DateRevised><Article><ArticleTitle>[Asthma].
</ArticleTitle><ELocationID EIdType="doi">10.1/a</ELocationID><Abstract><AbstractText>It is.
</AbstractText><CopyrightInformation>(c)</CopyrightInformation></Abstract><Language>ita</Language>
</Article><OtherAbstract Type="PIP"><AbstractText>More.</AbstractText></OtherAbstract>
<OtherID>PMC1 [x]</OtherID></MedlineCitation><PubmedData><ArticleIdList><ArticleId IdType="pmc">PMC1
</ArticleId></ArticleIdList></PubmedData></PubmedArticle><PubmedBookArticle><BookDocument>
<PMID Version="1">2</PMID><Book><BookTitle>Lungs</BookTitle></Book><Abstract><AbstractText>They
breathe.</AbstractText></Abstract></BookDocument></PubmedBookArticle><DeleteCitation>
<PMID Version="1">1</PMID></DeleteCitation></PubmedArticleSet>
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
text = 0.5
"""
_DEID = """<deIdi2b2><TEXT><![CDATA[
Date: 2067-05-03, Dr. Lee]]></TEXT><TAGS>
<DATE id="P0" start="7" end="17" text="2067-05-03" TYPE="DATE" comment="" />
<TLINK id="L" fromID="P0" toID="P0" type="SIMULTANEOUS" /></TAGS></deIdi2b2>
"""
_JATS = """<!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.2//EN" "archive.dtd"><article
 xmlns:xlink="http://www.w3.org/1999/xlink"><front><article-meta><article-id pub-id-type="pmc">7
</article-id><title-group><article-title>On asthma</article-title></title-group><permissions>
<license xlink:href="http://creativecommons.org/licenses/by/2.0"/></permissions><abstract><p>To
breathe.</p></abstract></article-meta></front><body><sec><title>Methods</title><p>We took 10<sup>6
</sup> cells [<xref ref-type="bibr">1</xref>,<xref ref-type="bibr">2</xref>].<fig><caption><p>Two
lungs.</p></caption></fig> Then</p><list><list-item><p>one &beta;</p></list-item></list><sec><title>
Deep</title><p>End.</p></sec></sec><p>Last.</p></body><back><ack><p>Thanks.</p></ack><ref-list><ref>
Orr</ref></ref-list></back></article>
"""
_XMI = """<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore"
 xmlns:custom="http:///webanno/custom.ecore">
<custom:METADATA xmi:id="2" sofa="9" begin="0" end="0" docLicense="CC BY" docLanguage="it"/>
<custom:EVENT xmi:id="6" sofa="9" begin="3" end="7" polarity="POS" TLINK="11"/>
<custom:CLINENTITY xmi:id="7" sofa="9" begin="3" end="7" entityID="C0004096"/>
<custom:EVENTTLINKLink xmi:id="11" role="OVERLAP" target="7"/>
<cas:Sofa xmi:id="9" sofaNum="1" sofaString="Ha asma."/></xmi:XMI>
"""
_FILES = {
    "article.nxml": _JATS,
    "case.xmi": _XMI,
    "i2b2.xml": _DEID,
    "marked.jsonl": '{"text": "<< DF >> blocks [[ sigma-1 ]]", "label": "INHIBITOR"}\n',
    "brat/1.txt": "A with B drug.\n",
    "brat/1.ann": "T1\tDRUG 0 1\tA\nT2\tDRUG 7 8;9 13\tB drug\nR1\tINT Arg1:T1 Arg2:T2\n",
    "pubtator.txt": "1|t|On DF.\n1|a|DF.\n1\t3\t5\tDF\tChemical\tD1\n1\t7\t9\tDF\tX\tD2\n"
                    "1\tCID\tD1\tD2\n",
    "2010/1.txt": "Fever of 38\nwith Aspirin .\n", "2010/1.con": 'c="fever" 1:0 1:0||t="problem"\n',
    "2010/1.rel": 'c="fever" 1:0 1:0||r="PIP"||c="fever" 1:0 1:0\n',
    "in.txt": "\n\n".join(TEXTS), "in.xml": _CITATION.format(1), "update.xml": _UPDATE,
    "memory.tmx": _TMX,
    "in.csv": 'n;note;kind;score\n1;"Il paziente; ha asma.";a;0.5\n2;Febbre.;b;1\n',
    "nli.jsonl": json.dumps({"sentence1": TEXTS[0], "sentence2": TEXTS[1], "pairID": "a",
                             "gold_label": "neutral"}) + "\n",
    "memory.tsv": "en\tit\nIl paziente.\tIl paziente.\nFever.\tFebbre.\n",
    "words.txt": "asma\ndiabete mellito\n", "phases.toml": _PHASES,
    "suite.toml": 'title = "Own"\nsource = "A, Table 1"\nbaseline = "old"\n'
                  '[[sets]]\nname = "Organs"\ntask = "ner"\nmetrics = ["f1"]\n'
                  '[[averages]]\nname = "Mean"\n[[published]]\ntable = "1"\n'
                  'main = true\nmodels = ["old"]\nscores = {Organs = [80.5]}\n',
    "config.toml": 'lang = "it"\n[text]\nsource = "notes"\nduplicates = "refuse"\n',
    "topics.toml": 'Heart = ["cardi*", "heart failure"]\nLung = ["asma"]\n'}
_LINES: dict[str, list[dict[str, Any]]] = {
    "in.jsonl": _RECORDS, "tagged.jsonl": _TAGGED, "maskings.jsonl": _MASKINGS,
    "annotated.jsonl": _ANNOTATED, "predicted.jsonl": _PREDICTED,
    "suite.jsonl": [{"model": "a-0", "task": "ner", "seed_of": "a", "f1": 0.5},
                    {"model": "b", "test_f1": {"mean": 0.7, "median": 0.7, "deviation": 0.1}},
                    {"compared": ["a", "b"], "metric": "f1", "difference": -0.2, "p": 0.03,
                     "interval": [-0.3, -0.1]}],
    "reviewed.jsonl": [{
        "id": str(number), "type": "X", "at": 0, "source": TEXTS[0], "span": [0, 2],
        "mention": TEXTS[0][:2], "target": TEXTS[0], "proposed": None, "words": "",
        "confidence": 0.0, "candidates": [], "accepted": accepted}
        for number, accepted in enumerate(([3, 8], None))],
    "scores.jsonl": _SCORES, "notes.jsonl": [{"id": "0", "text": "Il paziente.", "lang": "en"}]}


@dataclass(frozen=True)
class Reader:
    """A command and the file that gets damaged.

    Args:
        file: relative path.
        command: its arguments; they write only to stdout or OUT.
        packed: damage may change no byte of the content read, because checksums detect it.
        weight: share of the inputs; smaller for slow commands.
        said: parts of messages that need not name the file.
        balance: returns how much of the input is missing from records and counts.
    """

    file: str
    command: str
    packed: bool = False
    weight: float = 1.0
    said: tuple[str, ...] = ()
    balance: Balance | None = None

    @property
    def name(self) -> str:
        """File and command, for reports."""
        return f"{self.file}: {' '.join(self.command.split()[:2]).split(' -')[0]}"


_STEPS = "--steps 1 --max-length 16 --batch-size 2 -o OUT"
_PPPL = "score-pppl --model model in.jsonl"
_MRR = "score-mrr --model model maskings.jsonl"
_PRETRAIN = f"pretrain --model model in.jsonl {_STEPS}"
_TRANSLATE = "translate --engine memory --source-lang en --target-lang it --memory"
_STUDY = [*lines_of_study(float)]
# Damaged values that can be loaded, but make training fail to produce a result.
_DIVERGED = ("the loss is nan", "the loss is inf", "found no list of layers")
READERS = (
    Reader("in.txt", "import text in.txt --paragraphs --sentences --lang it -o OUT"),
    Reader("in.xml", "import pubmed in.xml --titles --other-abstracts"),
    Reader("article.nxml", "import pmc article.nxml --include captions,back --account"),
    Reader("article.tar", "import pmc article.tar"),
    Reader("update.xml", "import pubmed update.xml --other-abstracts --account", weight=.5),
    Reader("in.csv", "import table in.csv --columns text=note,id=n,label=kind,score=score"),
    Reader("marked.jsonl", "import chemprot marked.jsonl"),
    *(Reader(f"brat/1.{ending}", "import brat brat", weight=.5) for ending in ("ann", "txt")),
    Reader("pubtator.txt", "import pubtator pubtator.txt"),
    Reader("i2b2.xml", "import i2b2-xml i2b2.xml"),
    Reader("case.xmi", "import xmi case.xmi", weight=.5),
    *(Reader(f"2010/1.{ending}", "import i2b2-2010 2010", weight=.5) for ending in ("con", "rel")),
    Reader("annotated.jsonl", "export conll annotated.jsonl", weight=.2),
    Reader("nli.jsonl", "import nli nli.jsonl"),
    Reader("in.jsonl", "import jsonl in.jsonl -o OUT"),
    Reader("in.jsonl.gz", "import jsonl in.jsonl.gz", packed=True),
    Reader("in.jsonl.zst", "import jsonl in.jsonl.zst", packed=True),
    Reader("in.jsonl", "clean --repairs all --personal-data mask in.jsonl"),
    Reader("words.txt", "clean --remove words.txt in.jsonl", weight=.5),
    Reader("in.jsonl", "dedup --workers 1 in.jsonl", weight=.5),
    *(Reader(file, "decontaminate --workers 1 in.jsonl --evaluation tagged.jsonl --least-words 2",
             weight=.5) for file in ("in.jsonl", "tagged.jsonl")),
    Reader("in.jsonl", "sample in.jsonl --share 0.5", weight=.5),
    Reader("in.jsonl", "mix --corpus in.jsonl", weight=.5),
    Reader("annotated.jsonl", "describe annotated.jsonl --topics topics.toml", weight=.5),
    Reader("topics.toml", "describe in.jsonl --topics topics.toml"),
    Reader("in.jsonl", "find-contexts --words words.txt --workers 1 in.jsonl"),
    Reader("words.txt", "find-contexts --words words.txt --workers 1 in.jsonl"),
    Reader("in.jsonl", "compare-vocab --vocab tokenizer in.jsonl"),
    Reader("in.jsonl", "build-vocab --size 120 --allow-fewer -o OUT in.jsonl", weight=.5),
    Reader("in.jsonl", "tokenize --tokenizer tokenizer --workers 1 -o OUT in.jsonl", weight=.5),
    Reader("maskings.jsonl", _MRR, weight=.5),
    Reader("words.txt", "score-mrr --model model --terms words.txt in.jsonl", weight=.5,
           said=("in the input",)),
    Reader("tagged.jsonl", "predict --model tagger tagged.jsonl", weight=.5),
    Reader("scores.jsonl", "table --columns pppl,sentences scores.jsonl",
           said=("no line has",)),
    *(Reader(file, f"score-tasks annotated.jsonl predicted.jsonl --resamples 9 --task {task}",
             weight=.2)
      for task in sorted(TASK_METRICS.keys() - {NO_ENTITIES})
      for file in ("annotated.jsonl", "predicted.jsonl")),
    Reader("in.jsonl", "score-translation in.jsonl in.jsonl --resamples 2", weight=.5),
    Reader("memory.tsv", "translate --engine command --command cat --source-lang en --target-lang "
           "it notes.jsonl --glossary memory.tsv", said=("the engine wrote nothing",)),
    Reader("suite.jsonl", "score-suite --suite suite.toml Organs=suite.jsonl"),
    Reader("suite.toml", "score-suite --suite suite.toml Organs=suite.jsonl --table",
           said=("bmtools: --", "for Organs", "found the set 'Organs'")),
    Reader("mrr.jsonl", f"{_MRR} --fail-below-baseline mrr.jsonl", weight=.5),
    Reader("memory.tmx", f"{_TRANSLATE} memory.tmx notes.jsonl"),
    Reader("memory.tsv", f"{_TRANSLATE} memory.tsv notes.jsonl",
           said=("the engine wrote nothing",)),
    *(Reader(file, "project annotated.jsonl --translations predicted.jsonl")
      for file in ("annotated.jsonl", "predicted.jsonl")),
    Reader("reviewed.jsonl", "project annotated.jsonl --translations predicted.jsonl --accept "
           "reviewed.jsonl"),
    Reader("config.toml", "import text in.txt --config config.toml"),
    Reader("phases.toml", "pretrain --model model in.jsonl --phases phases.toml -o OUT",
           said=("bmtools: --", "bmtools: phase ")),
    Reader("tokenizer/tokenizer.json", "compare-vocab --vocab tokenizer in.jsonl"),
    Reader("tokenizer/tokenizer_config.json", "compare-vocab --vocab tokenizer in.jsonl"),
    Reader("tokenizer/tokenizer.json",
           "tokenize --tokenizer tokenizer --workers 1 -o OUT in.jsonl"),
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
    *(Reader(f"study/{file}", f"report study/{file} -o OUT.html", weight=.3) for file in _STUDY),
    *(Reader(f"study/{file}", "report study -o OUT.html", weight=.2) for file in (
        "out/small/bmtools.json", "out/small/metrics.jsonl", "page.html.bmtools.json")),
    Reader("model.run/step-1/state.json", "report model.run -o OUT.html", weight=.3),
    *(Reader(f"study/out/{file}", f"{command} study/out/large", weight=.2)
      for command in ("lineage", "verify") for file in (
          "large/bmtools.json", "small/bmtools.json")),
    *(Reader(file, f"card model --scores {file} -o OUT") for file in ("pppl.jsonl", "mrr.jsonl")),
    *(Reader(file, command, weight=.5) for file, command in DOCUMENTS),
    *(Reader(one.file, one.command.format(one.file), weight=.2, balance=one.balance)
      for one in REAL_FILES),
)


def make_kit(folder: Path, run: Callable[..., Any], **directories: Path) -> None:
    """Make the files for all readers.

    Args:
        folder: an empty folder.
        run: runs a command.
        directories: directories to copy, by name: tokenizer, model and tagger.
    """
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    write_documents(folder)
    for real in REAL_FILES:
        real.write(folder)
    for name, lines in _LINES.items():
        write_records(lines, str(folder / name))
    many = [{**_RECORDS[number % 3], "id": str(number)} for number in range(300)]
    with tarfile.open(folder / "article.tar", "w") as archive:
        archive.add(folder / "article.nxml", "article.nxml")
    for ending in ("gz", "zst"):
        write_records(many, str(folder / f"in.jsonl.{ending}"))
    for name, directory in directories.items():
        shutil.copytree(directory, folder / name)
    (folder / "bare").mkdir()
    shutil.copy(folder / "tokenizer" / "vocab.txt", folder / "bare")
    _make_sharded(folder / "model", folder / "sharded")
    run("build-vocab", "--size", "120", "--allow-fewer", "-o", folder / "vocabulary",
        folder / "in.jsonl")
    run("tokenize", "--tokenizer", folder / "tokenizer", "--workers", "1", "-o",
        folder / "shards", folder / "in.jsonl")
    run("score-mrr", "--model", folder / "model", "-o", folder / "mrr.jsonl",
        folder / "maskings.jsonl")
    run("score-pppl", "--model", folder / "model", "-o", folder / "pppl.jsonl",
        folder / "in.jsonl")
    lines = write_study(folder / "study")["log.jsonl"][:-1]
    (folder / "model.run" / "step-1").mkdir(parents=True)
    (folder / "model.run" / "step-1" / "state.json").write_text(json.dumps({
        "metrics": lines, "tokens_seen": 9, "wall_seconds": 1.5, "energy": {"hours": 0.5}}))
    run("report", folder / "study" / "pppl.jsonl", "-o", folder / "study" / "page.html")


def _make_sharded(model: Path, sharded: Path) -> None:
    """Copy a checkpoint, with its weights split into files with an index, as for large models."""
    from safetensors import safe_open

    shutil.copytree(model, sharded)
    weights = (sharded / "model.safetensors").rename(sharded / "model-00001-of-00001.safetensors")
    with safe_open(weights, "np") as opened:
        index = {"metadata": {}, "weight_map": dict.fromkeys(opened.keys(), weights.name)}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
