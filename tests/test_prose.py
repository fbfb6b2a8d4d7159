"""Text reads like well-edited English: few habits of literal translation per 100 sentences.

`python tests/test_prose.py PATH...` lists the sentences with hits. Five well-edited projects have
2.6 hits in documents, 3.1 in packages and 1.5 in tests, so the limits leave room for good English.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMITS = {"docs": 4.0, "bmtools": 4.0, "tests": 2.5}
_BEFORE = "of|from|with|by|to|for|beside|behind|than|like|as|on|in|at|under|between|over|without"
PATTERNS = {
    "what": rf"^What\b[^?]*$|(?:\b(?:{_BEFORE}|except|only|and|or|but|is|are)|[,;:(]) what\b(?!-)",
    "of which": r"\b(?:of|by|behind|beside|under|than|from|between|at) (?:which|whom|whose)\b",
    "who": r"\b(?:for|of|by|to|as|than|and|where|if) who(?:ever)?\b|\bwhoever\b|^Who\b[^?]*$",
    "that of": r"\b(?:that|those|the ones?) of\b"
               r"|\bthose (?:that|who|whose|with|without|in|before|after|beside)\b",
    "stand, lie": r"\b(?:stands?|stood|standing)\b(?! for| out| up| by|[- ](?:in|off|alone)\b)"
                  r"|\blies?\b",
    "lack": r"\b(?:lacks?(?! of)|lacked|lacking)\b",
    "tell, say": r"\b(?:tells?|told)\b(?! you| us| me)|\b(?:is|are|was|were|be|been) said\b"
                 r"|\bsays (?:so|nothing|of)\b",
    "behind": r"\b(?:behind(?! the scenes| a | an )|beside|amid|midst|hitherto|therein|thereof)\b",
    "last adverb": r"\b(?:anew|aside|alike)\b|\b\w+s? alone\b|, too\b|\bby (?:itself|themselves)\b"
                   r"|\bof old\b",
    "where": r"^Where\b[^?]*$|[,;:] (?:and |or |but )?where\b"
             r"|\bwhere (?:there|it|they|one|no|none|all|both|that)\b",
    "is no": r"(?<!there )(?<!There )\b(?:is|are|was|were|be) (?:no|none|nothing|nobody)\b"
             r"(?! longer| more| need| such)",
    "nothing": r"(?<!\bdo )(?<!\bdoes )(?<!\bdid )(?i:\bnothing\b|\bnobody\b|\bnowhere\b"
               r"|\bneither\b)|\bnone\b",
    "of its own": r"\bof (?:its|one's|your|their|his|our) own\b"
                  r"|\bof (?:theirs|ours|yours|it)\b(?= [a-z]+s\b|[.,;:)]|$)",
    "owner": r"(?<!\blet)(?<!\bit)(?<!\bthat)(?<!\bhere)\b\w*[a-z]'s"
             r"(?=[.,;:)]|$| (?:and|or|are|is|in|as)\b)",
    "so many": r"\b(?:so|thus) (?:many|much|few)\b"
               r"|\bas (?:many|much|few) (?:as )?(?:of|are|is|find|hold|there)\b",
    "else": r"[,;:] else\b|, as (?:[A-Z`\"'\[]|those\b|that\b|with\b|before\b|by\b|where\b|when\b)",
    "odd verb": r"\b(?:goes? on|went on|comes? by|hands? on|undone|undoes|mend(?:s|ed)?|brings?"
                r"|wants (?!to)|knows|given? back"
                r"|gives?(?= (?:the|a|an|no|all|each|its|none)\b))\b",
    "figure": r"\bfigures?\b(?! \d| out\b| S?\d|\.)",
    "of ... of": r"\bof\b(?: [\w'-]+){1,3} of\b(?: [\w'-]+){1,3} of\b"
                 r"|\bof\b(?: [\w'-]+){1,2} of\b",
    "chain": r"[;:] .*[;:] ",
    "long": r"^(?:\S+ ){38}",
}
COMPILED = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}
_TALKS = {"warn", "warning", "echo", "secho", "say", "note", "fail", "require", "info", "error",
          "message", "exit"}
_END = re.compile(r"(?<!\bet al)(?<!e\.g)(?<!i\.e)(?<!\bvs)(?<!\bcf)[.!?][)\"'*]*\s+"
                  r"(?=[\"'(*`]*[A-Z`\d])")
_ARGUMENT = re.compile(r"(?m)^ +((?:\*{0,2}\w+(?: \([^)\n]*\))?:(?=\s))?)")
_START = re.compile(r"(?:[-*#|>] ?|>>>|\.\.|\$ |    )")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of Markdown or of a docstring. Skip blocks of code."""
    text = re.sub(r"(?ms)^\s*(`{3,}|~{3,}).*?^\s*\1 *$", "", text)
    parts, paragraph = [], list[str]()
    for line in [*text.splitlines(), ""]:
        if not line.strip() or _START.match(line) or _START.match(line.strip()):
            parts.append("\n".join(paragraph))
            paragraph = []
        if line.lstrip().startswith("|"):
            parts += line.split("|")
        elif not line.startswith(("    ", ".. ", ">>>", "$ ", "<", "===", "---")):
            paragraph.append(line.strip())
            if line.startswith("#"):
                parts.append("\n".join(paragraph))
                paragraph = []
    for part in parts:
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"``?[^`]+``?", "`X`", part))
        for sentence in _END.sub("\0", plain).split("\0"):
            words = " ".join(sentence.split()).lstrip("#*->|. ")
            if len(re.findall(r"[A-Za-z']{2,}", words)) >= 3:
                yield words


def _literal(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(value) or "X" for value in node.values)
    if isinstance(node, ast.BinOp):
        return _literal(node.left) + _literal(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _messages(node: ast.AST) -> list[ast.expr]:
    """Return the arguments of a raised error or of a call that prints."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return [*node.exc.args, *(keyword.value for keyword in node.exc.keywords)]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return list(node.args) if name in _TALKS else []
    return []


def python_texts(source: str) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a module that people read, and whether each is a message."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            yield _ARGUMENT.sub(lambda found: "- " if found[1] else "", docstring), False
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name.replace("_", " "), False
        if isinstance(node, ast.keyword) and node.arg in {"help", "short_help", "epilog"}:
            yield _literal(node.value), False
        yield from ((_literal(part), True) for part in _messages(node))
    block = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if not re.match(r"# ?(?:type:|noqa|pragma|!)", token.string):
                own = not token.line[:token.start[1]].strip()
                block += ("\n" if own else "\n\n") + token.string.lstrip("#: ")
        elif token.type != tokenize.NL:
            yield block, False
            block = ""


def rate(*paths: Path) -> tuple[float, list[str]]:
    """Return hits per 100 sentences of files and directories, and the sentences with hits."""
    total, hits, found = 0, 0, []
    files = [file for path in paths for file in (
        sorted(path.rglob("*")) if path.is_dir() else [path]) if file.suffix in {".md", ".py"}]
    for file in files:
        source = file.read_text(encoding="utf-8")
        texts = python_texts(source) if file.suffix == ".py" else iter([(source, False)])
        for text, is_message in texts:
            for sentence in sentences(text):
                names = [name for name, pattern in COMPILED.items()
                         if pattern.search(sentence) and not (is_message and name == "chain")]
                total, hits = total + 1, hits + len(names)
                found += [f"{file}: {', '.join(names)}: {sentence}"] if names else []
    return 100 * hits / max(total, 1), found


def paths_of(room: str) -> list[Path]:
    return [ROOT / room, *sorted(ROOT.glob("*.md"))] if room == "docs" else [ROOT / room]


@pytest.mark.parametrize("room", LIMITS)
def test_text_is_plain(room: str) -> None:
    found, sentences_found = rate(*paths_of(room))
    assert found <= LIMITS[room], "\n".join(sentences_found[-20:])


def test_habits_are_found() -> None:
    [first, second] = sentences("What stands `behind` it is told.\n\n- The file contains records.")
    assert [name for name, pattern in COMPILED.items() if pattern.search(first)] == [
        "what", "stand, lie", "tell, say"]
    assert not any(pattern.search(second) for pattern in COMPILED.values())


if __name__ == "__main__":
    value, lines = rate(*map(Path, sys.argv[1:]))
    print(*lines, f"{value:.2f} hits per 100 sentences", sep="\n")
