"""The battery that every command faces: help, stdin, empty input, bad lines, wrong usage, output.

A command is one entry of `CASES` and one of `USAGE`. Formats of `import` face theirs in
`test_import.py`, `recipe`, which reads TOML, in `test_recipe.py`, `convert` and `merge`, which read
checkpoints alone, in `test_convert.py` and `test_merge.py`, `compare-models` in
`test_compare_models.py`, `card` in `test_card.py`, `plot` in
`cli/test_plots.py`, `lineage` in `test_lineage.py`, `export brat`, which writes a folder of texts,
in `test_export.py`, `export model`, which reads a checkpoint, in `test_export_model.py`. The layout
of help is tested in `cli/test_help.py`, its examples in `test_examples.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pytest

from bmtools.cli.main import COMMANDS, bmtools
from bmtools.io.provenance.manifest import hash_directory

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("one_thread")
NO_TEXT = "no text in the input; expected records with some text"
NO_SENTENCES = ("no sentences in the input; expected records with some text, or --method average, "
                "which reads none")
NO_WORDS = "no words in the input; expected records with some text"
NO_RECORDS = "FILE: found no records, expected at least one"
ALLOWED = "; --allow-empty accepts none"
STEPS = ("--steps", "4", "--max-length", "16", "--batch-size", "4")
MASKINGS = ({"id": "0", "text": "Il [MASK] ha diabete mellito e asma.", "target": "paziente"},
            {"id": "1", "text": "Il cuore [MASK] il sangue nelle arterie.", "target": "pompa"})
TAGGED = tuple({"id": str(number), "text": "Il paziente ha asma.", "entities": [
    {"start": 15, "end": 19, "type": "DIS"}]} for number in range(4))
RELATED = tuple({"id": str(number), "text": "Il paziente ha asma.", "entities": [
    {"id": "A", "start": 3, "end": 11, "type": "PAT"},
    {"id": "B", "start": 15, "end": 19, "type": "DIS"}],
    "relations": [{"head": "A", "tail": "B", "type": "HAS"}]} for number in range(4))
CLASSIFIED = tuple({"id": str(number), "text": f"Il paziente ha {illness}.", "label": illness}
                   for number, illness in enumerate(["asma", "diabete"] * 2))
ASKED = tuple({**record, "question": "Quale?", "answers": [{"text": "asma", "start": 15}]}
              for record in TAGGED)
PAIRED = tuple({**record, "text_pair": "Il paziente.", "labels": [record["label"]] * (number > 1),
                "score": number} for number, record in enumerate(CLASSIFIED))
NOTES = ({"id": "a", "text": "No pain. Fever."}, {"id": "b", "text": "Fever."})
PREDICTED = tuple({**record, "predicted": {"entities": [
    {**entity, "score": 0.9} for entity in record["entities"][number % 2:]]}}
    for number, record in enumerate(TAGGED))
SCORES = ({"model": "base", "pppl": 12.3456}, {"model": "small", "pppl": 23456.7})
SUITE = ({"model": "bio", "task": "ner", "f1": 0.8, "set": "BC5-chem"},
         {"model": "bio", "task": "yesno", "accuracy": 0.7, "set": "BioASQ"})
# Commands that read scores instead of records.
READS_SCORES = ("score-suite", "table")


@dataclass(frozen=True)
class Case:
    """A command at its smallest.

    Args:
        arguments: what it cannot do without; capitals stand for paths that `Kit` makes.
        help: words of its help.
        empty: its message where the input holds nothing.
        blank: its message where a text holds no word; None where that is no error.
        records: of its input; the corpus if not said.
        bad: a line that is wrong among them.
        fault: what is said of it.
        option: name of the option that takes the input.
        json: whether stdout holds JSON Lines.
    """

    arguments: tuple[str, ...]
    help: tuple[str, ...]
    empty: str = NO_RECORDS
    blank: str | None = NO_TEXT
    records: tuple[dict[str, Any], ...] = ()
    bad: bytes = b'{"id": "c"}'
    fault: str = "key 'text' is missing"
    option: str = ""
    json: bool = True


CASES = {
    "describe": Case(
        (), ("label_bias", "--rejects", "--table", "--vocab [NAME=]PATH", "--topics medicine|FILE",
             "--total", "--compare", "--bands", "--keys", "--plot FILE", "--workers"),
        NO_RECORDS, None, TAGGED),
    "build-vocab": Case(
        ("-o", "OUT", "--size", "120", "--allow-fewer"),
        ("--size", "30000", "--uncased", "--strip-accents", "--overwrite",
         "--tokenizer-type", "--special-tokens", "--unicode", "--extend", "--allow-fewer"),
        blank=NO_WORDS),
    "compare-vocab": Case(
        ("--vocab", "TOKENIZER"),
        ("--vocab [NAME=]PATH", "--terms FILE", "--worst N", "--corpus-words N", "--table",
         "--plot FILE", "--segmenter NAME", "mention by mention"),
        blank=f"{NO_WORDS}, or --terms with some terms"),
    "tokenize": Case(
        ("--tokenizer", "TOKENIZER", "--workers", "1", "-o", "OUT"),
        ("--tokenizer DIR", "--sentences", "67108864", "--workers",
         "--segmenter", "--resume", "--overwrite", "--rejects")),
    "find-contexts": Case(
        ("--words", "WORDS", "--workers", "1"),
        ("--words FILE", "--tokenizer DIR", "--base DIR", "--max-sentences", "[default: 20]",
         "--unit", "--seed", "--segmenter", "--report FILE", "--rejects"), NO_RECORDS + ALLOWED),
    "clean": Case(
        ("--min-words", "7"),
        ("--repairs basic|all|none|NAME,...", "--min-words", "--languages declared|CODE,...",
         "--licences commercial|NAME,...", "--personal-data [keep|flag|mask|drop]",
         "--max-line-copies", "--remove FILE", "--dropped FILE", "--rejects", "PubMedBERT",
         "no guarantee"), NO_RECORDS + ALLOWED, None),
    "decontaminate": Case(
        ("--evaluation", "GOLD", "--least-words", "2", "--action", "report"),
        ("--evaluation FILE", "--hits FILE", "--ngram-words", "[default: 13]", "--least-words",
         "--keys KEY,...", "--action [drop|report]", "--workers", "--part", "--ray", "--resume"),
        NO_RECORDS + ALLOWED, None, TAGGED),
    "dedup": Case(
        (), ("--duplicates [near|exact|bytes]", "--threshold", "[default: 0.7]", "--against PATH",
             "--signatures DIR", "--dropped FILE", "--keep", "--workers"), NO_RECORDS + ALLOWED,
        None),
    "sample": Case(
        ("--records", "3"),
        ("--size 100MB,...", "--words N,...", "--share X,...", "--by KEY", "--allow-fewer",
         "--ladder DIR", "--compression [none|gz|zst]", "--workers", "--seed"),
        blank="--records: found 1 records in all, expected 3 or more; ask for less, or let "
              "--allow-fewer take all there is"),
    "mix": Case(
        (), ("--corpus [NAME=]PATH", "--weights NAME=X,...", "--size", "--words", "--repeat",
             "--seed", "--workers"), blank=None, option="--corpus"),
    "split": Case(
        ("-o", "OUT", "--ratios", "0.5,0.25,0.25"),
        ("--ratios X,X,X", "[default: 0.8,0.1,0.1]", "--counts", "--folds", "--stratify KEY",
         "--together [documents|texts|questions]", "--by FILE", "--check", "--overwrite"),
        blank="found 1 document, too few for train, dev, test; expected one for each at least"),
    "init-weights": Case(
        ("--base", "BASE", "--tokenizer", "TOKENIZER", "-o", "OUT"),
        ("--base CKPT", "--tokenizer DIR", "contextual", "--max-sentences", "--overwrite",
         "Methods random and average read no records.", "--layers"),
        blank=NO_SENTENCES),
    "pretrain": Case(
        ("--architecture", "bert-1x64", "--tokenizer", "TOKENIZER", *STEPS, "-o", "OUT"),
        ("--model CKPT", "--architecture NAME", "--mask-rate", "0.0005", "--masking",
         "--phases FILE", "--recipe NAME", "--processes", "--resume", "--overwrite",
         "exits with 75")),
    "distill": Case(
        ("--teacher", "MODEL", "--architecture", "bert-1x64", *STEPS, "-o", "OUT"),
        ("--teacher CKPT", "--student CKPT", "--architecture NAME", "--set",
         "kl_weight", "--resume", "--dry-run", "--overwrite")),
    "finetune ner": Case(
        ("--model", "MODEL", "--dev", "DEV", "--seeds", "1", "--epochs", "1", "--max-length",
         "16", "-o", "OUT"),
        ("--patience", "5e-05", "--merge-types", "--overwrite"),
        blank="FILE:1: key 'entities' is missing; expected a list, empty where the text names "
              "nothing", records=TAGGED, option="--train"),
    "finetune relations": Case(
        ("--model", "MODEL", "--dev", "DEV", "--seeds", "1", "--epochs", "1", "--max-length",
         "16", "-o", "OUT"),
        ("--head-types NAME,...", "--within [record|sentence]", "--pooling [cls|mentions|starts]",
         "--entities [dummy|marked|original]", "5e-05", "--overwrite"),
        blank="FILE:1: key 'relations' is missing; expected a list, empty where nothing is related",
        records=RELATED, option="--train"),
    "finetune classification": Case(
        ("--model", "MODEL", "--dev", "DEV", "--seeds", "1", "--epochs", "1", "-o", "OUT"),
        ("--metric-for-best-model [accuracy|macro_f1|micro_f1]", "--truncation-side [right|left]",
         "--patience", "5e-05", "--overwrite"),
        blank="FILE:1: key 'label' is missing; expected the name of a class, as text",
        records=CLASSIFIED, option="--train"),
    "finetune nli": Case(
        ("--model", "MODEL", "--dev", "DEV", "--seeds", "1", "--epochs", "1", "-o", "OUT"),
        ("--metric-for-best-model [accuracy|macro_f1|micro_f1]", "follows"),
        blank="FILE:1: key 'label' is missing; expected the name of a class, as text",
        records=PAIRED, option="--train"),
    "finetune multilabel": Case(
        ("--model", "MODEL", "--dev", "DEV", "--seeds", "1", "--epochs", "1", "-o", "OUT"),
        ("--threshold", "--metric-for-best-model [micro_f1|", "--truncation-side [right|left]"),
        blank="FILE:1: key 'labels' is missing; expected a list of labels, empty for none",
        records=PAIRED, option="--train"),
    "finetune similarity": Case(
        ("--model", "MODEL", "--dev", "DEV", "--seeds", "1", "--epochs", "1", "-o", "OUT"),
        ("--metric-for-best-model [pearson|spearman]", "--truncation-side [right|left]"),
        blank="FILE:1: key 'score' is missing; expected the similarity of the texts, a number",
        records=PAIRED, option="--train"),
    "predict": Case(("--model", "TAGGER"), ("--device", "--max-length"), NO_RECORDS + ALLOWED,
                    None),
    "score-tasks": Case(
        ("GOLD",),
        ("--task NAME",
         "--predicted", "--group-seeds", "--by KEY", "--fail-under X", "--resamples"),
        blank="FILE: found no prediction for 4 of 4 records of GOLD (ids '0', '1', '2', ...), "
              "expected one prediction for each gold record", records=PREDICTED),
    "score-translation": Case(
        ("GOLD",), ("--plain", "--glossary FILE", "--baseline FILE", "--resamples"),
        blank="FILE: found no text, expected translations by people", records=TAGGED),
    "score-suite": Case(
        ("--suite", "blurb", "--published", "none"),
        ("--suite NAME|FILE", "biobit, biolm, biomegatron, blurb, scibert", "--baseline MODEL",
         "--format [markdown|latex]", "--sets", "--plot FILE"),
        "FILE: found no lines, expected at least one",
        "FILE: found no scores by score-tasks or finetune, expected at least one", SUITE, b"{",
        "found '{' ("),
    "score-pppl": Case(
        ("--model", "MODEL"),
        ("--variant [original|within-word|whole-word]", "--fail-over X", "lower"),
        blank="FILE:1: key 'text': found no tokens to score, expected a sentence"),
    "score-mrr": Case(
        ("--model", "MODEL"),
        ("--top-k", "--multi-token [miss|first|joint|skip]",
         "--ignore-case", "--fail-under X"),
        blank="FILE:1: key 'text': found no [MASK], expected one; or mark what to mask: entities, "
              "or --terms", records=MASKINGS),
    "score-masking": Case(
        ("--model", "MODEL", "--max-length", "16"),
        ("tokens, words, spans, terms", "[default: 80/10/10]", "--terms FILE", "--by KEY"),
        blank="FILE:1: key 'text': found no tokens to mask, expected words of the models' "
              "vocabularies"),
    "score-space": Case(
        ("--model", "MODEL", "--bands", "2", "--words-per-band", "2", "--min-count", "1",
         "--neighbours", "2"),
        ("average_cosine", "partition_isotropy", "own_band_neighbours", "--projection",
         "--occurrences", "--single-token-words", "[default: 4096]"),
        blank=NO_WORDS),
    "table": Case(
        ("--columns", "pppl"), ("--columns", "--key KEY", "model]", "test_f1.mean"),
        "FILE: found no lines, expected at least one",
        "no line has both 'model' and 'pppl'; name other columns", SCORES, b"{",
        "found '{' (", json=False),
    "export conll": Case((), ("--scheme [iob2|io|iobes|bilou]", "--tokenization"), blank=None,
                         records=TAGGED, json=False),
    "export squad": Case((), ("2.0", "--rejects FILE"),
                         blank="FILE:1: key 'question' is missing; expected a question to the "
                               "text", records=ASKED, json=False),
    "translate": Case(
        ("--source-lang", "en", "--target-lang", "it", "--engine", "memory", "--memory", "MEMORY"),
        ("Translate records sentence by sentence.", "--engine"), NO_RECORDS + ALLOWED, None,
        NOTES),
    "project": Case(
        ("--translations", "GOLD"),
        ("--translations FILE",
         "--method [align|exact|dictionary|markers|encoder|embeddings|score]",
         "--edges / --no-edges", "--review-page", "--accept", "--lost",
         "--min-confidence"), NO_RECORDS + ALLOWED,
        "FILE:1: found no translation with the id 'a' in GOLD; add it, leave the record out, or "
        "pair both files by --pairing order", TAGGED),
}

# What each row of `USAGE` comes behind.
BEFORE = {
    "tokenize": ("--tokenizer", "TOKENIZER"),
    "init-weights": CASES["init-weights"].arguments,
    "pretrain": ("-o", "out"),
    "distill": ("-o", "out"),
    "finetune ner": (*CASES["finetune ner"].arguments, "--train", "corpus.jsonl"),
    "finetune relations": (*CASES["finetune relations"].arguments, "--train", "corpus.jsonl"),
    "finetune classification": ("-o", "out"),
    **{f"finetune {task}": (*CASES[f"finetune {task}"].arguments, "--train", "corpus.jsonl")
       for task in ("nli", "multilabel", "similarity")},
    "score-mrr": ("--model", "MODEL"),
    "score-space": ("--model", "MODEL"),
    "translate": ("--source-lang", "en", "--target-lang", "it"),
}

USAGE: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "clean": (
        (("--repairs", "basic,whitespace"), "--repairs: found 'whitespace', expected names from"),
        (("--personal-kinds", "mail"), "--personal-kinds: found 'mail', expected names from"),
        (("--min-words", "9", "--max-words", "8"), "--min-words: found 9, expected at most"),
        (("--max-digit-share", "20"), "--max-digit-share: found 20.0, expected 0 to 1"),
        (("--remove", "absent"), "'absent' does not exist"),
        (("--personal-data", "hide"), "'hide' is not one of 'keep', 'flag', 'mask', 'drop'"),
        (("--max-line-copies", "-1"), "--max-line-copies: found -1, expected 0 or more"),
    ),
    "decontaminate": (
        ((), "Missing option '--evaluation'"),
        (("--evaluation", "absent"), "'absent' does not exist"),
        (("--evaluation", "corpus.jsonl", "--ngram-words", "0"), "--ngram-words: found 0, expect"),
        (("--evaluation", "corpus.jsonl", "--least-words", "0"), "--least-words: found 0, expect"),
        (("--evaluation", "corpus.jsonl", "--least-share", "2"), "--least-share: found 2.0, ex"),
        (("--evaluation", "corpus.jsonl", "--keys", "text,,"),
         "--keys: found 'text,,', expected names of keys, as text,question"),
    ),
    "dedup": (
        (("--threshold", "0"), "--threshold: found 0.0, expected above 0, at most 1"),
        (("--permutations", "8"), "--permutations: found 8, expected 16 or more"),
        (("--permutations", "2048"), "--permutations: found 2048, expected 1024 or fewer"),
        (("--ngram-words", "0"), "--ngram-words: found 0, expected 1 or more"),
        (("--keep", "newest"), "'newest' is not one of 'first', 'last', 'longest'"),
        (("--against", "absent.jsonl"), "'absent.jsonl' does not exist"),
    ),
    "sample": (
        ((), "expected one of --size, --words, --records, --share"),
        (("--size", "1MB", "--share", "0.1"), "expected one of --size, --words, --records"),
        (("--size", "100"), "--size: found '100', expected sizes of text with their units"),
        (("--size", "1MB,2XB"), "--size: found '2XB', expected sizes"),
        (("--words", "many"), "--words: found 'many', expected numbers of words"),
        (("--records", "1.5"), "--records: found '1.5', expected whole numbers"),
        (("--share", "1.2"), "--share: found '1.2', expected shares"),
        (("--size", "1MB,1000kB"), "--size: found '1MB,1000kB', expected each amount once"),
        (("--records", "1,2"), "found 2 samples, expected --ladder DIR for their files"),
        (("--records", "1", "--ladder", "d", "--rest", "f"), "found --ladder and --rest"),
        (("--records", "1", "--ladder", "d", "-o", "f"), "found --output and --ladder, expected"),
        (("--records", "1", "--workers", "-1"), "--workers: found -1, expected 0 or more"),
        (("--records", "1", "--ray", "auto", "-"), "--ray: found '-', expected files that the"),
    ),
    "mix": (
        ((), "Missing option '--corpus'"),
        (("--corpus", "absent.jsonl"), "--corpus: found 'absent.jsonl', expected a file of"),
        (("--corpus", "small.txt", "--corpus", "small.txt"), "found the name 'small' twice"),
        (("--corpus", "a=-", "--ray", "auto"), "--ray: found '-', expected files that the"),
        (("--corpus", "small.txt", "--weights", "a=1"),
         "--weights: found 'a=1', expected NAME=VALUE of each corpus: small"),
        (("--corpus", "small.txt", "--weights", "small=0"), "--weights: found '0', expected num"),
        (("--corpus", "small.txt", "--size", "1"), "--size: found '1', expected sizes of text"),
        (("--corpus", "small.txt", "--size", "1MB", "--words", "1M"),
         "--words: found '1M', expected none beside size"),
        (("--corpus", "small.txt", "--size", "small=1MB", "--weights", "small=1"),
         "--weights: found 'small=1', expected none beside size by corpus"),
    ),
    "split": (
        ((), "expected either -o DIR or --check, which writes nothing"),
        (("-o", "out", "--check"), "expected either -o DIR or --check"),
        (("-o", "out", "--ratios", "0.5,0.6,0.1"),
         "--ratios: found '0.5,0.6,0.1', expected three shares that add up to 1"),
        (("-o", "out", "--ratios", "half"), "--ratios: found 'half', expected three shares"),
        (("-o", "out", "--counts", "1,2"), "--counts: found '1,2', expected three whole numbers"),
        (("-o", "out", "--folds", "2"), "--folds: found 2, expected 3 or more"),
        (("-o", "out", "--folds", "5", "--counts", "1,2,3"),
         "--counts: found 1,2,3, expected none"),
        (("-o", "out", "--together", "text"), "did you mean 'texts'?"),
        (("-o", "out", "--by", "absent"), "'absent' does not exist"),
        (("--check",), "--check: found 1 file, expected two or more"),
    ),
    "describe": (
        (("absent.jsonl",), "'absent.jsonl' does not exist"),
        (("--sets",), "No such option '--sets'"),
        (("--vocab", "absent"), "--vocab: found 'absent', expected a tokenizer"),
        (("--topics", "law"), "--topics: found 'law', expected medicine or a TOML file"),
        (("--bands", "10,5"), "--bands: found '10,5', expected rising whole numbers above 1"),
        (("--most", "0"), "--most: found 0, expected 1 or more"),
        (("--plot", "p.jpg"), "--plot: found p.jpg, expected a name in .png"),
    ),
    "build-vocab": (
        (("-o", "tok", "--size", "99"), "--size: found 99, expected at least 100"),
        (("-o", "tok", "--size", "many"), "'many' is not a valid integer"),
        (("-o", "tok", "--tokenizer-type", "words"),
         "'words' is not one of 'wordpiece', 'bpe', 'unigram'"),
        (("-o", "tok", "--terms", "t"), "found --terms without --size auto"),
        (("-o", "tok", "--size", "auto", "--candidates", "9"), "--candidates: found 9, expected"),
        (("-o", "tok", "--tokenizer-type", "bpe", "--max-alphabet", "9"), "spells all characters"),
        (("-o", "tok", "--extend", "absent"), "'absent' does not exist"),
        (("-o", "tok", "--extend", "TOKENIZER", "--uncased", "--unicode", "nfc"),
         "found --uncased and --unicode with --extend, which keeps what the old tokenizer does"),
        (("-o", "tok", "--extend", "TOKENIZER", "--size", "auto"),
         "found --size auto with --extend"),
        (("-o", "tok", "--min-frequency", "0"), "--min-frequency: found 0, expected at least 1"),
        ((), "Missing option '-o' / '--output'"),
        (("-o", "tok", "absent.jsonl"), "'absent.jsonl' does not exist"),
    ),
    "compare-vocab": (
        ((), "Missing option '--vocab'"),
        (("--vocab", "absent"), "--vocab: found 'absent', expected a tokenizer"),
        (("--vocab", "x=absent"), "--vocab: found 'x=absent', expected a tokenizer"),
        (("--vocab", "=small.txt"), "--vocab: found '=small.txt', expected a tokenizer"),
        (("--vocab", "small.txt", "--vocab", "small.txt"),
         "--vocab: found the name 'small.txt' twice"),
        (("--vocab", "small.txt", "--plot", "p.jpg"),
         "--plot: found p.jpg, expected a name in .png"),
        (("--vocab", "small.txt", "--worst", "-1"), "-1 is not in the range"),
        (("--vocab", "small.txt", "--corpus-words", "0"), "0 is not in the range"),
        (("--vocab", "small.txt", "-", "--terms", "-"), "found - in both"),
    ),
    "tokenize": (
        (("-o", "s", "--shard-tokens", "0"), "--shard-tokens: found 0, expected 1 to 2147483648"),
        (("-o", "s", "--workers", "-1"), "-1 is not in the range x>=0"),
        ((), "Missing option '-o' / '--output'"),
        (("-o", "s", "--tokenizer", "absent"), "'absent' does not exist"),
        (("-o", "s", "absent.jsonl"), "'absent.jsonl' does not exist"),
    ),
    "find-contexts": (
        ((), "found neither --words nor --tokenizer, expected one"),
        (("--words", "w", "--max-sentences", "0"), "--max-sentences: found 0, expected 1 or more"),
        (("--words", "w", "--unit", "page"), "'page' is not one of 'sentence', 'record'"),
        (("--words", "w", "--base", "."), "--base: expected --tokenizer, and no --words"),
        (("--words", "w", "--tokenizer", ".", "--uncased"), "--uncased: --tokenizer says already"),
        (("--words", "absent"), "'absent' does not exist"),
        (("--words", "w", "--workers", "-1"), "-1 is not in the range x>=0"),
    ),
    "init-weights": (
        (("--method", "magic"), "'magic' is not one of 'random', 'average', 'contextual'"),
        (("--layers", "top"), "--layers: found 'top', expected last, all or numbers"),
        (("--grow", "12 x 768"), "--grow: found '12 x 768', expected LAYERSxWIDTH, such as 12x768"),
        (("--rope-base", "-1"), "--rope-base: found -1.0, expected 0 or more"),
        (("--rope-base", "inf"), "--rope-base: found inf, expected a finite number above 1, or 0"),
        (("--distil-learning-rate", "0"), "--distil-learning-rate: found 0.0, expected above 0"),
        (("--focus-window", "0"), "--focus-window: found 0, expected 1 or more"),
        (("--max-sentences", "0"), "--max-sentences: found 0, expected 1 or more"),
        (("--base", "absent"), "'absent' does not exist"),
        (("--tokenizer", "absent"), "'absent' does not exist"),
    ),
    "pretrain": (
        ((), "expected one of --model and --architecture"),
        (("--model", "MODEL", "--architecture", "bert-1x64"),
         "expected one of --model and --architecture"),
        (("--architecture", "bert-1x64"), "--architecture and --tokenizer go together"),
        (("--model", "MODEL", "--tokenizer", "MODEL"),
         "--architecture and --tokenizer go together"),
        (("--model", "absent"), "'absent' does not exist"),
        (("--model", "MODEL", "--mask-rate", "0"), "--mask-rate: found 0.0, expected above 0"),
        (("--model", "MODEL", "--learning-rate", "-1"), "--learning-rate: found -1.0"),
        (("--model", "MODEL", "--steps", "-1"), "--steps: found -1, expected 0 or more"),
        (("--model", "MODEL", "--epochs", "0"), "--epochs: found 0.0, expected above 0"),
        (("--model", "MODEL", "--mixed-precision", "fp8"),
         "'--mixed-precision': 'fp8' is not one of 'auto'"),
        (("--model", "MODEL", "--objective", "x"), "'--objective': 'x' is not one of 'masked'"),
        (("--model", "MODEL", "--set", "mask_replace_prob=0.95"),
         "shares that add up to 1 at most"),
        (("--model", "MODEL", "--recipe", "pubmedbertt"), "did you mean 'pubmedbert'?"),
        (("--model", "MODEL", "--recipe", "laptop", "--phases", "corpus.jsonl"),
         "expected one of --recipe and --phases"),
        (("--model", "MODEL", "--set", "stepz=4"),
         "found unknown key 'stepz', did you mean 'steps'"),
        (("--model", "MODEL", "--budget", "soon"),
         "--budget: found soon, expected a number and s, m"),
        (("--model", "MODEL", "--replay", "MODEL"), "--replay and --set replay_steps go together"),
        (("--model", "MODEL", "--set", "replay_steps=4"),
         "--replay and --set replay_steps go together"),
        (("--model", "MODEL", "--corpus", "MODEL"), "expected NAME=PATH of a file of records or"),
        (("--model", "MODEL", "--corpus", "text=corpus.jsonl"),
         "found the name 'text', which FILES"),
        (("--model", "MODEL", "--corpus", "replay=corpus.jsonl"),
         "found the name 'replay', expected"),
        (("--model", "MODEL", "--corpus", "a=corpus.jsonl", "--corpus", "a=corpus.jsonl"),
         "--corpus: found 'a' twice"),
        (("--model", "MODEL", "--shard"), "--shard: found it with one process"),
        (("--model", "MODEL", "--set", "optimizer=sgd"),
         "optimizer: found 'sgd', expected adamw or"),
        (("--model", "MODEL", "--set", "mixuot=0.9"), "did you mean 'mixout'"),
        (("--model", "MODEL", "--set", "mask_curve=linear"), "expected a share above 0 beside"),
    ),
    "distill": (
        (("--student", "MODEL"), "Missing option '--teacher'"),
        (("--teacher", "MODEL"), "expected one of --student and --architecture"),
        (("--teacher", "MODEL", "--student", "MODEL", "--architecture", "bert-1x64"),
         "expected one of --student and --architecture"),
        (("--teacher", "absent", "--student", "MODEL"), "'absent' does not exist"),
        (("--teacher", "MODEL", "--student", "MODEL", "--set", "objective=causal"),
         "--set objective: distillation works with masked alone"),
        (("--teacher", "MODEL", "--student", "MODEL", "--set", "adversarial=1"),
         "--set adversarial: distillation has no adversarial training"),
        (("--teacher", "MODEL", "--student", "MODEL", "--set", "temperature=0"),
         "--set temperature: found 0.0, expected above 0"),
        (("--teacher", "MODEL", "--student", "MODEL", "--set", "kl_weight=-1"),
         "loss weights: found"),
        (("--teacher", "MODEL", "--student", "MODEL", "--set", "mlm_weight=0", "--set",
          "kl_weight=0",
          "--set", "cosine_weight=0"), "expected 0 or more, not all 0"),
    ),
    "finetune ner": (
        (("--patience", "0"), "--patience: found 0, expected 1 or more"),
        (("--crf", "--loss", "dice"), "--loss: found dice, expected cross-entropy beside --crf"),
        (("--model", "absent"), "'absent' does not exist"),
        (("--train", "-", "--dev", "-"),
         "only one of --train, --dev, --test and --unlabelled can be stdin"),
        (("--test", "absent.jsonl"), "'absent.jsonl' does not exist"),
    ),
    "finetune relations": (
        (("--pooling", "starts"), "--pooling: found starts, expected cls or mentions without "
                                  "--entities marked"),
        (("--markers", "[E1]"), "--markers: found '[E1]', expected four, such as '[E1] [/E1] "),
        (("--placeholders", "@A$"), "--placeholders: found '@A$', expected names of head and tail"),
        (("--entities", "blinded"), "'--entities': 'blinded' is not one of 'dummy', 'marked', "),
    ),
    "finetune classification": (
        ((), "Missing option '--model'"),
        (("--model", "MODEL"), "Missing option '--train'"),
        (("--model", "MODEL", "--train", "corpus.jsonl"), "Missing option '--dev'"),
        (("--metric-for-best-model", "f1"),
         "'--metric-for-best-model': 'f1' is not one of 'accuracy', 'macro_f1', 'micro_f1'"),
        (("--truncation-side", "middle"),
         "'--truncation-side': 'middle' is not one of 'right', 'left'"),
    ),
    "finetune nli": ((("--seeds", "0"), "--seeds: found 0, expected 1 or more"),),
    "finetune multilabel": ((("--threshold", "1"), "--threshold: found 1.0, expected 0 to below"),),
    "finetune similarity": (
        (("--metric-for-best-model", "f1"), "'f1' is not one of 'pearson', 'spearman'"),),
    "predict": (
        ((), "Missing option '--model'"),
        (("--model", "MODEL", "--batch-size", "0"), "--batch-size: found 0, expected 1 or more"),
    ),
    "score-tasks": (
        (("absent.jsonl",), "'absent.jsonl' does not exist"),
        (("corpus.jsonl", "bio=absent.jsonl"), "'absent.jsonl' does not exist"),
        (("-", "-"), "found stdin for GOLD and for PREDICTIONS, expected one of them"),
        (("corpus.jsonl", "corpus.jsonl", "bio=corpus.jsonl"), "found corpus.jsonl twice"),
        (("corpus.jsonl", "--task", "tagging"), "--task: found 'tagging', expected one of ner, "),
        (("corpus.jsonl", "--task", "nre"), "factoid, list; did you mean 'ner'?"),
        (("corpus.jsonl", "--predicted", ""), "--predicted: found '', expected a key"),
        (("corpus.jsonl", "--resamples", "-1"), "--resamples: found -1, expected 0 or more"),
    ),
    "score-translation": (
        (("absent.jsonl",), "'absent.jsonl' does not exist"),
        (("-", "-"), "found stdin more than once, expected one file from there"),
        (("corpus.jsonl", "corpus.jsonl", "--baseline", "corpus.jsonl"),
         "--baseline: found corpus.jsonl, expected a file of another name"),
        (("corpus.jsonl", "--resamples", "-1"), "--resamples: found -1, expected 0 or more"),
    ),
    "score-suite": (
        ((), "Missing option '--suite'"),
        (("--suite", "blurp"), "--suite: found 'blurp', did you mean 'blurb'?"),
        (("--suite", "blurb", "absent.jsonl"), "'absent.jsonl' does not exist"),
        (("--suite", "blurb", "GAD=absent.jsonl"), "'absent.jsonl' does not exist"),
        (("--suite", "blurb", "--published", "some"), "'some' is not one of 'main', 'all', 'none'"),
        (("--suite", "blurb", "--format", "html"), "'html' is not one of 'markdown', 'latex'"),
        (("--suite", "blurb", "--plot", "p.jpg"), "--plot: found p.jpg, expected a name in .png"),
    ),
    "score-pppl": (
        ((), "Missing option '--model'"),
        (("--model", "MODEL", "--batch-tokens", "-1"), "--batch-tokens: found -1"),
        (("--model", "MODEL", "--precision", "int3"), "'int3' is not one of"),
        (("--model", "MODEL", "--details", "-"), "--details and --output are the same"),
        (("--model", "nowhere"), "'nowhere' does not exist"),
    ),
    "score-mrr": (
        (("--top-k", "0"), "--top-k: found 0"),
        (("--multi-token", "maybe"),
         "'maybe' is not one of 'miss', 'first', 'joint', 'skip'"),
        (("--fail-under", "high"), "'high' is not a valid float"),
    ),
    "score-masking": (
        ((), "Missing option '--model'"),
        (("--model", "MODEL", "--masking", "letters"),
         "--masking: found 'letters', expected names"),
        (("--model", "MODEL", "--mask-rate", "15"),
         "--mask-rate: found '15', expected shares above 0"),
        (("--model", "MODEL", "--corruption", "80"),
         "--corruption: found '80', expected percentages"),
        (("--model", "MODEL", "--masking", "Words,token"), "did you mean 'words'?"),
        (("--model", "MODEL", "--masking", "terms"),
         "--masking: found terms, expected --terms as well"),
        (("--model", "MODEL", "--terms", "corpus.jsonl"),
         "--masking: found 'tokens,words', expected terms as well, as --terms is given"),
        (("--model", "MODEL", "--repeats", "0"), "--repeats: found 0, expected 1 or more"),
        (("--model", "MODEL", "--precision", "int8"),
         "'int8' is not one of 'float32', 'bf16', 'fp16'"),
        (("--model", "nowhere"), "'nowhere' does not exist"),
    ),
    "score-space": (
        (("--plot", "p.jpg"), "--plot: found p.jpg, expected a name in .png, .svg, .pdf"),
        (("--vectors", "v.bin"), "--vectors: found v.bin, expected a name in .npz"),
        (("--layers", "top"), "--layers: found 'top', expected last, all or numbers"),
        (("--bands", "1"), "--bands: found 1, expected 2 or more"),
        (("--projection", "umap"), "'--projection': 'umap' is not one of 'pca', 'tsne'"),
        (("--batch-tokens", "0"), "--batch-tokens: found 0"),
        (("--model", "nowhere"), "'nowhere' does not exist"),
    ),
    "table": (
        (("--columns", " ,"), "--columns: found ' ,', expected at least one key"),
        (("--columns", "pppl", "absent.jsonl"), "'absent.jsonl' does not exist"),
    ),
    "export conll": (
        (("--scheme", "iob3"), "'iob3' is not one of"),
        (("absent.jsonl",), "'absent.jsonl' does not exist"),
    ),
    "project": (
        ((), "Missing option '--translations'"),
        (("--translations", "corpus.jsonl", "--method", "guess"), "'guess' is not one of"),
        (("--translations", "corpus.jsonl", "--min-confidence", "2"), "is not in the range"),
    ),
    "translate": (
        (("--engine", "memory"), "--engine memory needs --memory"),
        (("--engine", "apertium", "--model", "."), "--model means nothing to --engine apertium"),
        (("--engine", "apertium", "--via", "en"), "--via en is one of the two languages"),
        (("--engine", "transformers"), "--engine transformers needs --model"),
        (("--engine", "transformers", "--model", ".", "--compute-type", "int8"),
         "--compute-type int8 needs --engine ctranslate2"),
        (("--engine", "apertium", "--target-lang", "en"),
         "--source-lang and --target-lang are both en"),
    ),
}


@dataclass(frozen=True)
class Kit:
    """A command ready to run on inputs of a test's own folder."""

    name: str
    case: Case
    folder: Path
    paths: dict[str, Path]
    run: Run
    piped: Run

    def write(self, *lines: bytes, name: str = "in.jsonl") -> Path:
        path = self.folder / name
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def good(self) -> Path:
        return self.write(*(json.dumps(record).encode() for record in self.case.records))

    def arguments(self, out: str = "out") -> list[object]:
        paths = {**self.paths, "OUT": self.folder / out}
        return [*self.name.split(), *(paths.get(word, word) for word in self.case.arguments)]

    def on(self, source: object, *more: object, out: str = "out") -> Any:
        given = (self.case.option, source) if self.case.option else (source,)
        return self.run(*self.arguments(out), *more, *given)

    def on_stdin(self, source: Path, dash: bool, out: str) -> Any:
        given = ("-",) if dash else ()
        given = (self.case.option, "-") if self.case.option else given
        return self.piped(source, *self.arguments(out), *given)

    @property
    def writes_directory(self) -> bool:
        return "OUT" in self.case.arguments

    def left(self) -> list[str]:
        """What the command left in the folder, its input aside."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != "in.jsonl")


@pytest.fixture(scope="session")
def kit_paths(make_tokenizer: Run, make_checkpoint: Run, tiny_tokenizer: Path,
              tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory,
              make_tagger: Callable[[Path], Path]) -> dict[str, Path]:
    """What the arguments of cases stand for."""
    folder = tmp_path_factory.mktemp("kit")
    (folder / "words.txt").write_text("asma\ndiabete mellito\n", encoding="utf-8")
    (folder / "memory.tsv").write_text("en\tit\nNo pain.\tNessun dolore.\nFever.\tFebbre.\n",
                                       encoding="utf-8")
    (folder / "dev.jsonl").write_text("".join(json.dumps({
        **record, "entities": RELATED[0]["entities"],
        "relations": RELATED[0]["relations"], "labels": ["asma"]}) + "\n"
        for record in PAIRED[:2]))
    (folder / "gold.jsonl").write_text("".join(json.dumps(one) + "\n" for one in TAGGED))
    base = make_checkpoint(make_tokenizer("Il respirare, le ginocchia, i sanguigni di mellito"))
    return {"TOKENIZER": tiny_tokenizer, "MODEL": tiny_checkpoint, "BASE": base,
            "TAGGER": make_tagger(tiny_checkpoint), "WORDS": folder / "words.txt",
            "MEMORY": folder / "memory.tsv", "DEV": folder / "dev.jsonl",
            "GOLD": folder / "gold.jsonl"}


@pytest.fixture(params=CASES)
def kit(request: pytest.FixtureRequest, kit_paths: dict[str, Path], tmp_path: Path, run: Run,
        piped: Run, corpus_records: list[dict[str, Any]]) -> Kit:
    case = CASES[request.param]
    if not case.records:
        case = replace(case, records=tuple(corpus_records))
    return Kit(request.param, case, tmp_path, kit_paths, run, piped)


def test_every_command_is_here() -> None:
    without_records = {"card", "compare-models", "convert", "energy", "help", "import", "lineage",
                       "merge", "recipe", "report", "verify"}
    assert {name.split()[0] for name in CASES} | without_records == set(COMMANDS)
    assert {name.split()[0] for name in USAGE} | without_records == set(COMMANDS)


def test_help(kit: Kit) -> None:
    outcome = kit.run(*kit.name.split(), "--help-all")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: bmtools {kit.name} ")
    for part in (*kit.case.help, "--config FILE", "--traceback"):
        assert part in " ".join(outcome.out.split())


def test_a_file_equals_stdin(kit: Kit, contents: Callable[[Path], Any],
                             manifest: Callable[[Path], Any]) -> None:
    source = kit.good()
    named = kit.on(source)
    assert named.code == 0, named.err
    for dash in (False, True):
        out = f"piped-{dash}"
        piped = kit.on_stdin(source, dash, out)
        assert piped.code == 0, piped.err
        if kit.writes_directory:
            assert contents(kit.folder / out) == contents(kit.folder / "out")
            made = manifest(kit.folder / out)
            assert "<stdin>" in made["inputs"]
            assert made["sha256"] == hash_directory(kit.folder / out)
        else:
            assert piped.out.replace('"stdin"', '"in"') == named.out


def test_stdout_can_be_parsed(kit: Kit) -> None:
    outcome = kit.on(kit.good())
    assert outcome.code == 0, outcome.err
    if kit.case.json:
        assert outcome.records and all(isinstance(line, dict) for line in outcome.records)
    assert kit.left() == (["out"] if kit.writes_directory else [])


@pytest.mark.parametrize("blank", [False, True], ids=["no records", "no words"])
def test_empty_input_is_one_clear_line(kit: Kit, blank: bool) -> None:
    message = kit.case.blank if blank else kit.case.empty
    source = kit.write(*[b'{"id": "a", "text": " \\n"}'] * blank)
    outcome = kit.on(source)
    if message is None:
        assert outcome.code == 0, outcome.err
        return
    assert (outcome.code, outcome.out) == (1, "")
    message = message.replace("GOLD", str(kit.paths["GOLD"])).replace("FILE", str(source))
    assert outcome.err == f"bmtools: {message}\n"
    assert kit.left() == []


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_wrong_usage(kit: Kit, seed: int) -> None:
    """In every command that has one, before anything is read."""
    command: Any = bmtools
    for word in kit.name.split():
        command = command.get_command(click.Context(command), word)
    if "seed" not in [option.name for option in command.params]:
        return
    outcome = kit.on(kit.good(), "--seed", seed)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (f"bmtools: --seed: found {seed}, expected 0 to 4294967295. "
                           f"See 'bmtools {kit.name} --help'.\n")
    assert kit.left() == []


def test_producers_may_allow_empty_input(kit: Kit) -> None:
    source = kit.write()
    outcome = kit.on(source, "--allow-empty")
    if ALLOWED in kit.case.empty:
        assert (outcome.code, outcome.out) == (0, "")
    else:
        assert outcome.code == 2
        assert "No such option '--allow-empty'" in outcome.err


def test_half_a_corpus_is_refused(kit: Kit) -> None:
    """What the producer says it could not finish, and what a kill cut off; rejects take neither."""
    lines = [json.dumps(record).encode() for record in kit.case.records]
    marked = kit.write(*lines, json.dumps({
        "bmtools": "incomplete", "command": "bmtools import pubmed", "reason": "cut"}).encode())
    told = (f"bmtools: {marked}:{len(lines) + 1}: the records are incomplete, since 'bmtools "
            "import pubmed' failed (cut); mend that, and run both again\n")
    cut = kit.write(name="cut.jsonl")
    cut.write_bytes(b"\n".join([*lines, b'{"id": "z", "text": "Il cuo']))
    for source, message in ((marked, told), (
            cut, f"bmtools: {cut}:{len(lines) + 1}: the last line is cut off, after '{{\"id\": "
                 "\"z\", \"text\": \"Il cuo'; the records are incomplete, so make or copy them "
                 "again\n")):
        if kit.name in READS_SCORES and source is cut:
            continue
        outcome = kit.on(source)
        assert outcome.code == 1
        assert outcome.err.endswith(message)
        assert kit.left() == ["cut.jsonl"]
        if kit.name in READS_SCORES:
            continue
        outcome = kit.on(source, "--rejects", kit.folder / "rejects.jsonl")
        assert outcome.code == 1
        assert outcome.err.endswith(message)
        assert (kit.folder / "rejects.jsonl").read_bytes() == b""
        (kit.folder / "rejects.jsonl").unlink()


def test_a_record_that_is_too_large_is_refused(kit: Kit) -> None:
    lines = [json.dumps(record).encode() for record in kit.case.records]
    source = kit.write(*lines, b'{"id": "z", "text": "' + b"a" * 1_100_000 + b'"}', *lines)
    outcome = kit.on(source, "--max-record-megabytes", "1")
    assert outcome.code == 1
    assert outcome.err.endswith(
        f"bmtools: {source}:{len(lines) + 1}: found a record of more than 1 megabyte, expected a "
        "smaller one; --max-record-megabytes raises the limit\n")
    assert kit.left() == []


def test_no_directory_of_this_machine_is_written(kit: Kit) -> None:
    """Who publishes a model does not publish where its text was."""
    if not kit.writes_directory:
        pytest.skip("writes no directory")
    secret = kit.folder / "mario-rossi"
    secret.mkdir()
    kit.good().rename(secret / "notes.jsonl")
    more = ("--save-steps", "2", "--evaluate", secret / "notes.jsonl") \
        if kit.name in ("pretrain", "distill") else ()
    outcome = kit.on(secret / "notes.jsonl", *more)
    assert outcome.code == 0, outcome.err
    written = [path for path in (kit.folder / "out").rglob("*") if path.is_file()]
    assert any(b"notes.jsonl" in path.read_bytes() for path in written)
    places = {str(path.parent).encode() for path in (secret, *kit.paths.values())}
    for path in written:
        content = path.read_bytes()
        assert b"mario-rossi" not in content, path
        assert not [place for place in places if place in content], path


READS_TOKENS = {"tokenize", "pretrain", "distill", "finetune ner",
                "finetune relations", "finetune classification", "finetune nli",
                "finetune multilabel", "finetune similarity", "predict", "score-pppl",
                "score-mrr", "score-masking", "score-space"}


def test_text_in_another_script_is_told_by_name(kit: Kit) -> None:
    """Once, of the model and the file; the others read no tokens, or learn them from the text."""
    foreign = " больной кашель жар сердце кровь печень лёгкое почка"
    records = [{**record, "text": record.get("text", "") * (kit.name != "score-space") + foreign}
               for record in kit.case.records]  # score-space draws few words
    source = kit.write(*(json.dumps(record).encode() for record in records))
    told = [line for line in kit.on(source).err.splitlines() if "are unknown to it" in line]
    if kit.name not in READS_TOKENS:
        assert told == []
        return
    [line] = told
    where = "sampled words of the text" if kit.name == "score-space" else f"tokens of {source}"
    assert line.startswith("bmtools: /") and f"{where} are unknown to it; expected text in" in line
    known = kit.on(kit.good(), out="other")
    assert "are unknown to it" not in known.err


def test_a_bad_line_stops_or_is_collected(kit: Kit) -> None:
    first, *rest = (json.dumps(record).encode() for record in kit.case.records)
    source = kit.write(first, kit.case.bad, *rest)
    outcome = kit.on(source)
    assert outcome.code == 1
    assert outcome.err.startswith(f"bmtools: {source}:2: {kit.case.fault}")
    assert outcome.err.count("\n") == 1
    assert kit.left() == []
    if kit.name in READS_SCORES:
        return
    outcome = kit.on(source, "--rejects", kit.folder / "rejects.jsonl")
    assert outcome.code == 0, outcome.err
    assert "1 bad record in" in outcome.err
    [rejected] = (kit.folder / "rejects.jsonl").read_text().splitlines()
    assert json.loads(rejected)["place"] == f"{source}:2"
    assert json.loads(rejected)["record"] == json.loads(kit.case.bad)


@pytest.mark.parametrize(("name", "arguments", "message"), [
    (name, *wrong) for name, wrongs in USAGE.items() for wrong in wrongs])
def test_wrong_usage_ends_with_two(
        name: str, arguments: tuple[str, ...], message: str, run: Run, corpus: Path,
        kit_paths: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w").write_text("asma\n")
    Path("small.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))
    paths = {**kit_paths, "OUT": tmp_path / "out"}
    given = [paths.get(word, word) for word in (*BEFORE.get(name, ()), *arguments)]
    files = () if name.startswith(("finetune", "mix", "translate")) else (corpus,)
    outcome = run(*name.split(), *given, *files)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.startswith("bmtools: ") and outcome.err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "small.txt", "w"}


def test_it_ends_with_a_sentence_and_the_next_command(kit: Kit) -> None:
    if kit.name == "table":
        pytest.skip("takes no time")
    outcome = kit.on(kit.good())
    last = outcome.err.splitlines()[-1]
    said = re.fullmatch(r"bmtools: .+ in [\d.]+ (?:s|min|h)(?:; next: (.+))?", last)
    assert said, last
    if said[1] and said[1].startswith("bmtools "):
        _, name, *words = said[1].split()
        command: Any = bmtools.get_command(click.Context(bmtools), name)
        flags = {flag for option in command.params for flag in option.opts}
        assert flags >= {word for word in words if word.startswith("-")}


def test_a_terminal_gets_tables_and_a_pipe_json(
        kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    source, help_text = kit.good(), kit.run(*kit.name.split(), "--help-all").out
    if "--table / --json" not in help_text:
        pytest.skip("writes records, or is a table")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shown = kit.on(source)
    assert shown.code == 0, shown.err
    assert shown.out.strip() and not re.search(r"^\{", shown.out, re.MULTILINE)
    printed = kit.on(source, "--json", out="again")
    assert printed.records and all(isinstance(line, dict) for line in printed.records)
    monkeypatch.undo()
    assert [list(line) for line in kit.on(source, out="piped").records] == [
        list(line) for line in printed.records]
    table = kit.on(source, "--table", out="table").out
    assert table.strip() and "\x1b" not in table and not re.search(r"^\{", table, re.MULTILINE)
