"""Examples in the help of commands and in topics run in a directory with the named files."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pyarrow.parquet
import pytest
import torch
from every_command import every_command
from safetensors.torch import load_file
from toy_documents import PAGE, epub, pdf, warc
from toy_models import SENTENCES

from bmtools.cli.help import DocumentedCommand, Group, topic_text, topics
from bmtools.cli.main import COMMANDS, bmtools
from bmtools.cli.parameters import NamedPath
from bmtools.io.jsonl import RecordReader

CITATION = ("<PubmedArticle><MedlineCitation><PMID>{}</PMID><Article><Abstract><AbstractText>{}"
            "</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>")
DDI = '<document id="d"><sentence id="d.s0" text="One."/></document>'
XMI = ('<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore">'
       '<cas:Sofa xmi:id="1" sofaString="Nessun dolore. Febbre."/></xmi:XMI>')
STUDY = """[axes]
seed = [0, 1]
[[steps]]
name = "finetune"
each = ["seed"]
run = "bmtools sample corpus.jsonl --records 2 --seed {seed} -o {output}"
output = "{seed}.jsonl"
"""
CURATED = {"data": [{"original": sentence, "masked": [sentence.replace("sangue", "[MASK]")]}
                    for sentence in SENTENCES if "sangue" in sentence]}


DOCUMENTED = {" ".join(words): command for words, command, _ in every_command()}
EXAMPLES = {name: command.examples for name, command in DOCUMENTED.items()
            if isinstance(command, DocumentedCommand | Group)}
SHELL = re.compile(r"^    ((?:BMTOOLS_\w+=\S+ )?bmtools (?:.*\\\n)*.*)$", re.MULTILINE)


def runnable(topic: str) -> list[str]:
    """Find the commands among a topic's indented lines, except for `<Tab>`, which is a key."""
    return [line.replace("\n    ", "\n") for line in SHELL.findall(topic_text(topic))
            if "<Tab>" not in line]


def with_annotations(record: dict[str, Any]) -> dict[str, Any]:
    """Add the keys of every task."""
    text = record["text"]
    first, last = text.index(" "), text.rindex(" ") + 1
    is_heart = "cuore" in text
    return {**record, "text_pair": text, "label": "heart" if is_heart else "other",
            "labels": ["heart"] * is_heart, "score": len(text) / 10, "question": "Chi?",
            "answers": [{"text": text[:first], "start": 0}],
            "entities": [{"id": "T1", "start": 0, "end": first, "type": "DIS"},
                         {"id": "T2", "start": last, "end": len(text) - 1, "type": "PLACE"}],
            "relations": [{"head": "T1", "tail": "T2", "type": "NEAR"}] * is_heart}


@pytest.fixture(scope="session")
def files(make_tokenizer: Callable[..., Path], make_checkpoint: Callable[..., Path],
          make_tagger: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a directory with the files that examples name."""
    from bmtools.data.tokenize import tokenize
    from bmtools.training.plan import kept_directory
    from bmtools.vocab.loading import load_tokenizer

    folder = tmp_path_factory.mktemp("examples")
    vocabulary = make_tokenizer(*SENTENCES)
    model = make_checkpoint(vocabulary, max_length=128)
    for name, target in (("vocabulary", vocabulary), ("model", model),
                         ("base", make_checkpoint(make_tokenizer("Il mellito"), max_length=128)),
                         ("tagger", make_tagger(model)), ("seed-0", make_tagger(model)),
                         ("seed-1", make_tagger(model))):
        (folder / name).symlink_to(target)
    shutil.copytree(model, folder / "published")
    for step in range(3):
        shutil.copytree(model, kept_directory(model) / f"step-{step:08d}")
    (folder / "published" / "bmtools.json").unlink()
    weights = folder / "published" / "model.safetensors"
    torch.save(load_file(weights), folder / "published" / "pytorch_model.bin")
    weights.unlink()


    def write(name: str, *records: dict[str, Any]) -> None:
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))

    texts = [{"id": str(number), "text": text, "lang": "it", "source": "toy"}
             for number, text in enumerate(SENTENCES)]
    annotated = [with_annotations(text) for text in texts]
    (folder / "run").mkdir()
    write("run/metrics.jsonl", *({"step": step, "loss": 9 - step} for step in range(1, 5)))
    write("corpus.jsonl", *texts)
    write("notes.jsonl", *texts[:8])
    for name in ("train", "dev", "test"):
        write(f"{name}.jsonl", *annotated[::16])
    for name in ("found", "found-0", "found-1"):
        write(f"{name}.jsonl", *({**record, "predicted": {"entities": record["entities"]}}
                                 for record in annotated[::16]))
    write("curated.jsonl", *({"id": text["id"], "target": "sangue",
                              "text": text["text"].replace("sangue", "[MASK]")}
                             for text in texts[:40] if "sangue" in text["text"]))
    write("other.jsonl", {"pmid": 1, "abstract": "No pain."}, {"pmid": 2, "abstract": "Fever."})
    write("english.jsonl", {"id": "a", "text": "No pain. Fever.", "lang": "en"})
    for name in ("italian", "translated", "earlier"):
        write(f"{name}.jsonl", {"id": "a", "text": "Nessun dolore. Febbre.", "lang": "it"})
    write("reviewed.jsonl", {"id": "a", "type": "S", "at": 0, "source": "No pain.", "span": [3, 7],
                             "mention": "pain", "target": "Nessun dolore.", "proposed": None,
                             "words": "", "confidence": 0, "candidates": []})
    write("scores.jsonl", {"model": "base", "pppl": 9.5, "bits_per_character": 2.5, "f1": 0.8})
    for name, content in (
            ("notes.txt", "\n".join(SENTENCES[:8])), ("terms.txt", "cuore\nlinfa\n"),
            ("about.toml", 'intended_use = "research"\n'), ("study.toml", STUDY),
            ("terms.tsv", "en\tit\npain\tdolore\n"),
            ("memory.tsv", "en\tit\nNo pain.\tNessun dolore.\nFever.\tFebbre.\n"),
            ("train.tsv", "-DOCSTART-\n\nIl O\ncuore B-ORGAN\n\nFebbre O\n"),
            ("texts.txt", "a|Il cuore.\n"),
            ("notes.csv", "number,note\n1,Il cuore.\n"), ("pairs.tsv", "Il cuore.\tFebbre.\tno\n"),
            ("gad.tsv", "@GENE$ in @DISEASE$.\t1\n"),
            ("hoc.tsv", "index\ttext\tlabels\n1_s0\tIl cuore.\tx\n"),
            ("biosses.tsv", "sentence1\tsentence2\tscore\nIl cuore.\tFebbre.\t0.5\n"),
            ("squad.json", json.dumps({"data": [{"paragraphs": [{"context": "Il cuore.", "qas": [
                {"id": "1", "question": "Che?", "answers": []}]}]}]})),
            ("bioasq.json", json.dumps({"questions": [
                {"id": kind, "body": "Che?", "type": kind, "snippets": [{"text": "Il cuore."}]}
                for kind in ("factoid", "yesno")]})),
            ("biobit.json", json.dumps({name: [{
                "ID": "1", "context": "Il cuore.", "question": "Che?", "answer": "cuore"}]
                for name in ("train", "dev")})),
            ("article.nxml", "<article><body><p>Il cuore.</p></body></article>"),
            ("pubmedqa.json", json.dumps({
                name: {"QUESTION": "Che?", "CONTEXTS": ["Il cuore."]} for name in "12"})),
            ("test_ground_truth.json", '{"1": "yes"}'),
            ("nli.jsonl", '{"sentence1": "Il cuore.", "sentence2": "Febbre."}\n'),
            ("yesno.tsv", "yesno_label\tquestion\tideal_answer\n1\tPompa?\tIl cuore.\n"),
            ("abstracts.tsv", "1\tOn DF.\tDF blocks sigma-1.\n"),
            ("entities.tsv", "1\tT1\tCHEMICAL\t3\t5\tDF\n1\tT2\tGENE-Y\t17\t24\tsigma-1\n"),
            ("relations.tsv", "1\tCPR:4\tY \tINHIBITOR\tArg1:T1\tArg2:T2\n"),
            ("marked.jsonl", '{"text": "<< DF >> blocks [[ sigma-1 ]]", "label": "INHIBITOR"}\n'),
            ("texts.json", '{"data": [{"PMID": "1", "Testo": "DF."}]}'),
            ("concepts.txt", "1\t0\t2\tDF\tCHEMICALENTITY\tD1\n"), ("related.txt", ""),
            ("pubtator.txt", "1|t|On DF.\n1|a|DF.\n1\t3\t5\tDF\tChemical\tD1\n"),
            ("i2b2.xml", "<deIdi2b2><TEXT>DF.</TEXT></deIdi2b2>"),
            ("case.xmi", XMI), ("mentions.txt", "a\t3\t8\tcuore\tORGAN\n"),
            ("curated.json", json.dumps(CURATED))):
        (folder / name).write_text(content, encoding="utf-8")
    tokenize(RecordReader([str(folder / "corpus.jsonl")]), load_tokenizer(vocabulary),
             folder / "shards")
    (folder / "brat").mkdir()
    (folder / "i2b2-2010").mkdir()
    (folder / "i2b2-2010/1.txt").write_text("DF.")
    (folder / "brat/1.txt").write_text("DF.")
    (folder / "brat/1.ann").write_text("T1\tDRUG 0 2\tDF\n")
    (folder / "codes.tsv").write_text("file\tcode\n1\t8041/3\n")
    question = {**texts[0], "question": "Quale?", "answers": []}
    write("answers.jsonl", question)
    best = [{"text": "cuore", "score": 0.5}]
    write("answered.jsonl", {**question, "predicted": {"answers": best}})
    annotations = folder / "ebm_nlp_2_00/annotations/aggregated/starting_spans"
    for part in ("train", "test/gold"):
        for layer in ("participants", "interventions", "outcomes"):
            (annotations / layer / part).mkdir(parents=True)
            (annotations / layer / part / f"{len(part)}.AGGREGATED.ann").write_text("1\n0\n")
        (folder / "ebm_nlp_2_00/documents").mkdir(exist_ok=True)
        (folder / "ebm_nlp_2_00/documents" / f"{len(part)}.tokens").write_text("Insulin\n.\n")
        (folder / "ebm_nlp_2_00/documents" / f"{len(part)}.text").write_text("Insulin.")
    with tarfile.open(folder / "ebm_nlp_2_00.tar.gz", "w:gz") as packed:
        packed.add(folder / "ebm_nlp_2_00", "ebm_nlp_2_00")
    with zipfile.ZipFile(folder / "DDICorpus-2013.zip", "w") as archive:
        archive.writestr("DDICorpus/Train/a.xml", DDI)
    with tarfile.open(folder / "hoc-original.tar.gz", "w:gz") as packed:
        for name, text in (("text/1.txt", b"Il cuore.\n"), ("labels/1.txt", b"<x--y")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text))
    for name, documents in (
            ("pages/1.html", PAGE.encode()), ("page.html", PAGE.encode()),
            ("book.epub", epub({"a": "<p>Il cuore.</p>"})),
            ("downloads/a.pdf", pdf(["Il cuore."])), ("downloads/b.txt", b"Febbre."),
            ("article.pdf", pdf(["Il cuore."])), ("articles/1.pdf", pdf(["Il cuore."])),
            ("crawl.warc.gz", gzip.compress(warc(1, PAGE.encode()))),
            ("NOTEEVENTS.csv.gz", gzip.compress(b"ROW_ID,CATEGORY,TEXT\n1,Physician ,Well.\n"))):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(documents)
    rows = pyarrow.table({"id": ["1"], "text": ["Il cuore."], "number": [7], "note": ["Febbre."]})
    (folder / "saved").mkdir()
    for name in ("notes.parquet", "saved/train-00000-of-00001.parquet"):
        pyarrow.parquet.write_table(rows, folder / name)
    citations = "".join(CITATION.format(number, " ".join(SENTENCES[number % 3:]))
                        for number in range(1, 9))
    (folder / "pubmed.xml.gz").write_bytes(gzip.compress(
        f"<PubmedArticleSet>{citations}</PubmedArticleSet>".encode()))
    return folder


@pytest.fixture
def in_shell(files: Path, warm_bmtools: Path, tmp_path: Path) -> Callable[[str], Any]:
    """Run a command line of bash in a copy of the files; delete its output afterwards."""
    for file in files.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())

    log = opened_log(tmp_path)

    def call(line: str) -> Any:
        for output in re.findall(r" (?:-o|>) ([^\s/]\S*)", line):
            (tmp_path / output).unlink(missing_ok=True)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENED": str(log),
                       "PATH": f"{warm_bmtools}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=tmp_path,
                              env=environment, capture_output=True, text=True, check=False)

    return call


def opened_log(folder: Path) -> Path:
    """Return the path of the log of files that commands in a folder open."""
    return folder.with_name(f"{folder.name}.opened")


def check_run(in_shell: Callable[[str], Any], folder: Path, line: str) -> None:
    done = in_shell(line)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert done.stdout or " -o " in line or ">" in line
    opened: dict[tuple[str, ...], set[Path]] = {}
    for arguments, path in map(json.loads, opened_log(folder).read_text().splitlines()):
        opened.setdefault(tuple(arguments[1:]), set()).add(Path(path))
    for words, paths in opened.items():
        assert undeclared(bmtools, words, folder, paths) == []


def undeclared(command: click.Command, words: Sequence[str], folder: Path,
               opened: set[Path]) -> list[tuple[str | None, str]]:
    """List values that name an opened file, or its directory, but whose type is not a path.

    Args:
        command: the command that ran.
        words: its arguments.
        folder: the folder in which it ran.
        opened: the files that it opened, after following symbolic links.
    """
    context, rest = click.Context(command), list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, click.Context(found, context)
    values, _, _ = command.make_parser(context).parse_args(rest)
    faults = []
    for param in command.params:
        given = values.get(param.name or "")
        for value in given if isinstance(given, list | tuple) else [given]:
            for name in {value, value.rpartition("=")[2]} if isinstance(value, str) else ():
                path = (folder / name).resolve()
                is_declared = isinstance(param.type, NamedPath)
                if not is_declared and any(one.is_relative_to(path) for one in opened) \
                        and path != folder:
                    faults.append((param.name, value))
    return faults


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), [
    (name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_examples_run(in_shell: Callable[[str], Any], tmp_path: Path, name: str,
                      line: str) -> None:
    """Every parameter whose value the command opens as a file must be declared as a path."""
    assert line.startswith(f"bmtools {name}".rstrip()) or f"| bmtools {name} " in line
    check_run(in_shell, tmp_path, line)


@pytest.mark.slow
@pytest.mark.parametrize(("topic", "line"), [
    (topic, line) for topic in topics() for line in runnable(topic)])
def test_examples_of_topics_run(in_shell: Callable[[str], Any], tmp_path: Path, topic: str,
                                line: str) -> None:
    if topic == "phases":
        [content] = re.findall(r"^    title.*\n(?:(?:    .*)?\n)+?(?=    bmtools)",
                               topic_text(topic), re.MULTILINE)
        (tmp_path / "phases.toml").write_text(content)
    check_run(in_shell, tmp_path, line)


def test_every_command_has_two_examples() -> None:
    assert set(EXAMPLES) == set(DOCUMENTED)
    assert {name for name, lines in EXAMPLES.items() if len(lines) != 2} == set()
    assert {name.split()[0] for name in EXAMPLES if name} == set(COMMANDS)
