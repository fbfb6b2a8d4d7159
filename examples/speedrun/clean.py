"""Remove repeats and test sentences from corpora, and count them.

    python clean.py --test curated.jsonl -o text --corpus NAME FILE... --corpus NAME FILE...

Texts are compared by their words, ignoring case and punctuation. The first occurrence is kept:

- A document that repeats an earlier document is removed. A sentence of at least six words that
  repeats an earlier sentence, such as a warning in all leaflets, is also removed.
- A document that shares eight consecutive words with a test sentence is removed. A document of four
  to seven words that occurs in a test sentence is also removed. These documents are written to
  `contaminated.jsonl`, with the shared words.

Memory holds a hash of each sentence.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmtools.records import MASK
from bmtools.text.segment import sentence_spans

SHARED_WORDS = 8
FEWEST_WORDS = 4
SENTENCE_WORDS = 6
_WORD = re.compile(r"\w+")


def words_of(text: str) -> tuple[str, ...]:
    """Split a text into words in lower case, without punctuation."""
    return tuple(_WORD.findall(text.casefold()))


class TestWords:
    """Word n-grams of the test sentences.

    Args:
        texts: the complete test sentences.
        longest: maximum length of the n-grams; longer texts are compared by n-grams of this length.
    """

    def __init__(self, texts: Iterable[str], longest: int = SHARED_WORDS) -> None:
        self._longest = longest
        self._ngrams = {ngram for text in set(texts)
                           for size in range(FEWEST_WORDS, longest + 1)
                           for ngram in _ngrams(words_of(text), size)}

    def shared(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the first n-gram that a text shares with the test, or an empty one."""
        size = min(self._longest, len(words))
        if size < FEWEST_WORDS:
            return ()
        return next((ngram for ngram in _ngrams(words, size)
                     if ngram in self._ngrams), ())


def _ngrams(words: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    return (tuple(words[start:start + size]) for start in range(len(words) - size + 1))


@dataclass
class Cleaner:
    """Filter that removes repeats and test sentences, text by text.

    Args:
        test: n-grams that must not be in the training text.
        contaminated: removed texts that contain such n-grams, with the shared words.
    """

    test: TestWords
    contaminated: list[dict[str, Any]] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def clean(self, record: dict[str, Any], counts: Counter[str]) -> str:
        """Return the cleaned text of a record; empty if the record is removed."""
        text = record["text"]
        words = words_of(text)
        counts["documents"] += 1
        counts["words"] += len(words)
        shared = self.test.shared(words)
        if shared:
            counts["contaminated_documents"] += 1
            self.contaminated.append({"id": record["id"], "shared": " ".join(shared),
                                      "text": text})
            return ""
        if not self._is_new(words, 0):
            counts["repeated_documents"] += 1
            return ""
        kept = []
        for start, end in sentence_spans(text, "it"):
            sentence = words_of(text[start:end])
            if sentence and self._is_new(sentence, SENTENCE_WORDS):
                kept.append(" ".join(text[start:end].split()))
            else:
                counts["repeated_sentences"] += bool(sentence)
        return " ".join(kept)

    def _is_new(self, words: tuple[str, ...], fewest: int) -> bool:
        """Record a text, and return whether it is new; short texts always count as new."""
        key = hash((fewest, words))
        known = key in self._seen
        self._seen.add(key)
        return not known or len(words) < fewest


def clean_corpora(corpora: Sequence[Sequence[str]], cleaner: Cleaner, folder: Path) -> None:
    """Write each corpus and a line of counts; the counts are also printed."""
    folder.mkdir(parents=True)
    lines = []
    for name, *files in corpora:
        counts: Counter[str] = Counter(dict.fromkeys(
            ("documents", "words", "repeated_documents", "repeated_sentences",
             "contaminated_documents", "kept_documents", "kept_words"), 0))
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as out:
            for file in files:
                for line in Path(file).read_text(encoding="utf-8").splitlines():
                    record = json.loads(line)
                    text = cleaner.clean(record, counts)
                    if text:
                        counts["kept_documents"] += 1
                        counts["kept_words"] += len(words_of(text))
                        # The same id may occur in several sources.
                        kept = {"id": f"{name}-{counts['documents']}", "text": text, "lang": "it",
                                "source": f"{Path(file).stem}:{record['id']}"}
                        out.write(json.dumps(kept, ensure_ascii=False) + "\n")
        lines.append(json.dumps({"corpus": name, **counts}))
        print(lines[-1])
    _write(folder / "contaminated.jsonl", (json.dumps(one, ensure_ascii=False)
                                           for one in cleaner.contaminated))
    _write(folder / "report.jsonl", lines)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Clean the corpora in a temporary folder, and rename it once it is complete."""
    parser = argparse.ArgumentParser(description="Remove repeats and test sentences.")
    parser.add_argument("--test", type=Path, required=True, help="records with text and target")
    parser.add_argument("--corpus", nargs="+", action="append", required=True,
                        metavar=("NAME", "FILE"))
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    records = map(json.loads, given.test.read_text(encoding="utf-8").splitlines())
    test = TestWords(record["text"].replace(MASK, record["target"]) for record in records)
    aside = given.output.with_name(given.output.name + ".partial")
    if aside.exists():
        for file in aside.iterdir():
            file.unlink()
        aside.rmdir()
    clean_corpora(given.corpus, Cleaner(test), aside)
    aside.rename(given.output)


if __name__ == "__main__":
    main()
