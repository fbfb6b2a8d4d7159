"""Count the masked words that are one token of a vocabulary; their share is a ceiling for scores.

    python ceilings.py TEXT... --test curated.jsonl --tokenizer DIR --tokenizer DIR

Prints a line for each tokenizer: the number of such words (`one_token`), their share (`ceiling`),
how often these words occur in the text (`seen_median`, `seen_under_20`), and `tokens_per_word`. The
first line describes all masked words.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vocabulary import count_words, texts_of

from bmtools.scoring.mrr_targets import TargetLookup
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import is_uncased

SELDOM = 20


def seen(records: Sequence[dict[str, Any]], words: Counter[str]) -> list[int]:
    """Return the frequency of each masked word in the text, ignoring case."""
    folded: Counter[str] = Counter()
    for word, count in words.items():
        folded[word.lower()] += count
    return [folded[record["target"].lower()] for record in records]


def describe(name: str, tokenizer: Any, records: Sequence[dict[str, Any]],
             words: Counter[str]) -> dict[str, Any]:
    """Count the masked words that are one token of a vocabulary."""
    targets = TargetLookup(tokenizer, ignore_case=False)
    own = [record for record in records
           if targets.find(record["text"], record["target"]).correct_ids]
    lengths = [len(encoded.ids) for encoded in
               tokenizer.backend_tokenizer.encode_batch(list(words), add_special_tokens=False)]
    tokens = sum(length * count for length, count in zip(lengths, words.values(), strict=True))
    return {"vocabulary": name, "tokens": len(tokenizer), "uncased": is_uncased(tokenizer),
            "one_token": len(own), "ceiling": round(len(own) / len(records), 3),
            **_frequencies(seen(own, words)), "tokens_per_word": round(tokens / words.total(), 3)}


def _frequencies(counts: Sequence[int]) -> dict[str, Any]:
    return {"seen_median": statistics.median(counts or [0]),
            "seen_under_20": sum(count < SELDOM for count in counts)}


def main() -> None:
    """Describe the vocabularies from the command line."""
    parser = argparse.ArgumentParser(description="Count masked words that are one token.")
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, action="append", required=True)
    given = parser.parse_args()
    records = [json.loads(line) for line in given.test.read_text(encoding="utf-8").splitlines()]
    texts = list(texts_of(given.texts))
    for number, path in enumerate(given.tokenizer):
        tokenizer = load_tokenizer(path)
        words = count_words(texts, tokenizer)
        if not number:
            found = seen(records, words)
            print(json.dumps({"vocabulary": "all words", "maskings": len(records),
                              "never_seen": found.count(0), **_frequencies(found)}))
        print(json.dumps(describe(path.name, tokenizer, records, words)))


if __name__ == "__main__":
    main()
