"""Articles of any structure at random: each of their characters is accounted for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from bmtools.corpus.formats.settings import ARTICLE_PARTS, JatsConfig
from bmtools.corpus.formats.texts.jats import jats_account, jats_records

ARTICLES = 12
_WORDS = ("alpha", "1", "[", "]", ",", " (", ")", "; ", "Beta ", "10", "e.g. ", ". ", "β", "\n")
_INLINE = ("italic", "sub", "sup", "xref", "xref", "ext-link", "inline-formula", "fn", "unknown",
           "label", "citation")
_BLOCKS = ("p", "p", "p", "list", "disp-quote", "boxed-text", "fig", "table-wrap", "disp-formula",
           "supplementary-material", "sec", "sec", "verse-group", "ref-list")


class Writer:
    """Writer of random articles.

    Args:
        rng: random numbers.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def words(self) -> str:
        return "".join(self._rng.choices(_WORDS, k=self._rng.randrange(4)))

    def inline(self, depth: int, in_paragraph: bool = False) -> str:
        text = self.words()
        for _ in range(self._rng.randrange(4) if depth > 0 else 0):
            tag, kind = self._rng.choice(_INLINE), self._rng.choice(("bibr", "bibr", "fig", "fn"))
            given = f' ref-type="{kind}"' if tag == "xref" else ""
            text += f"<{tag}{given}>{self.inline(depth - 1)}</{tag}>{self.words()}"
            if in_paragraph and self._rng.random() < 0.2:
                text += self.block(depth - 1, in_paragraph)
        return text

    def block(self, depth: int, in_paragraph: bool = False) -> str:
        tag = self._rng.choice(_BLOCKS)
        if depth <= 0 or tag in ("p", "disp-formula", "verse-group") or (
                tag == "sec" and in_paragraph):
            return f"<p>{self.inline(depth - 1, True)}</p>"
        inner = self.blocks(depth - 1)
        before = {"sec": f"<label>1</label><title>{self.inline(1)}</title>",
                  "list": f"<list-item>{self.blocks(depth - 1)}</list-item>"}.get(
            tag, f"<caption><title>{self.inline(1)}</title><p>{self.inline(2)}</p></caption>"
            if tag in ("fig", "table-wrap", "boxed-text") else "")
        return f"<{tag}>{before}{inner}</{tag}>{self.words() * (not in_paragraph)}"

    def blocks(self, depth: int) -> str:
        return "".join(self.block(depth) for _ in range(self._rng.randrange(4)))

    def article(self, number: int) -> str:
        subs = "".join(
            "<response><front-stub><title-group><article-title>" + self.inline(1)
            + f"</article-title></title-group></front-stub><body>{self.blocks(2)}</body></response>"
            for _ in range(self._rng.randrange(2)))
        return (f"<article><front><article-meta><article-id pub-id-type='pmc'>{number}</article-id>"
                f"<title-group><article-title>{self.inline(2)}</article-title></title-group>"
                f"<abstract>{self.blocks(2)}</abstract></article-meta></front><body>{self.words()}"
                f"{self.blocks(4)}</body><back><ack>{self.blocks(2)}</ack></back>"
                f"<floats-group>{self.blocks(2)}</floats-group>{subs}</article>")


@pytest.mark.parametrize("parts", ["", "captions", ",".join(ARTICLE_PARTS)])
def test_every_character_of_any_article(tmp_path: Path, parts: str) -> None:
    config, writer = JatsConfig(parts), Writer(Random(str(parts)))
    path = tmp_path / "in.xml"
    path.write_text("<pmc-articleset>" + "".join(
        writer.article(number) for number in range(ARTICLES)) + "</pmc-articleset>", "utf-8")
    records = list(jats_account(jats_records([str(path)], config), str(path), Counter(), config))
    for record in records:
        text = record["text"]
        assert text == text.strip() and "\n\n\n" not in text and "  " not in text
        for section in record["meta"].get("sections", ()):
            content = text[section["start"]:section["end"]]
            assert content and content == content.strip()
    assert len(records) >= ARTICLES / 2
