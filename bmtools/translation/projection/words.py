"""Words of sentences, as projection sees them."""

from __future__ import annotations

import re
import unicodedata

# Numbers, characters of scripts that write no spaces, words up to the apostrophe of an elision, and
# each sign by itself.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['\u2019](?=\w))?"
                   r"|[^\w\s]|_")
# What scholarly words of Greek and Latin are written like in Latin scripts; in this order.
_SPELLINGS = (("ph", "f"), ("mf", "nf"), ("ae", "e"), ("oe", "e"), ("qu", "c"), ("ct", "t"),
              ("pt", "t"), ("x", "s"), ("cs", "s"), ("h", ""), ("y", "i"), ("j", "i"), ("k", "c"),
              ("w", "v"), ("tio", "zio"), ("cia", "zia"), ("cio", "zio"))
_DOUBLED = re.compile(r"(.)\1+")
_ENDING = re.compile(r"(?<=...)[aeiou]*s?$")


def spelling(word: str) -> str:
    """Reduce a word to what is alike in the languages that took it from Greek or Latin.

    `arrhythmias` and `aritmie` become `aritm`, `psychosis` and `psicosi` `psicos`.
    """
    plain = "".join(one for one in unicodedata.normalize("NFKD", word)
                    if not unicodedata.combining(one))
    for written, common in _SPELLINGS:
        plain = plain.replace(written, common)
    return _ENDING.sub("", _DOUBLED.sub(r"\1", plain)) or word


def word_spans(text: str) -> list[tuple[int, int]]:
    """Find the words of a sentence: numbers and signs are words of their own."""
    return [match.span() for match in _WORD.finditer(text)]


def plain_words(text: str) -> list[str]:
    """Return the words of a sentence as they compare.

    They are in small letters, elided ones without their apostrophe, numbers with a point where
    other languages have a comma.
    """
    words = [text[start:end].casefold() for start, end in word_spans(text)]
    return [word.replace(",", ".") if word[0].isdigit() else word.rstrip("'\u2019") or word
            for word in words]
