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


def words(rng: Random) -> str:
    return "".join(rng.choices(_WORDS, k=rng.randrange(4)))


def inline(rng: Random, depth: int, in_paragraph: bool = False) -> str:
    text = words(rng)
    for _ in range(rng.randrange(4) if depth > 0 else 0):
        tag, kind = rng.choice(_INLINE), rng.choice(("bibr", "bibr", "fig", "fn"))
        given = f' ref-type="{kind}"' if tag == "xref" else ""
        text += f"<{tag}{given}>{inline(rng, depth - 1)}</{tag}>{words(rng)}"
        if in_paragraph and rng.random() < 0.2:
            text += block(rng, depth - 1, in_paragraph)
    return text


def block(rng: Random, depth: int, in_paragraph: bool = False) -> str:
    tag = rng.choice(_BLOCKS)
    if depth <= 0 or tag in ("p", "disp-formula", "verse-group") or (
            tag == "sec" and in_paragraph):
        return f"<p>{inline(rng, depth - 1, True)}</p>"
    before = {"sec": f"<label>1</label><title>{inline(rng, 1)}</title>",
              "list": f"<list-item>{blocks(rng, depth - 1)}</list-item>"}.get(
        tag, f"<caption><title>{inline(rng, 1)}</title><p>{inline(rng, 2)}</p></caption>"
        if tag in ("fig", "table-wrap", "boxed-text") else "")
    return f"<{tag}>{before}{blocks(rng, depth - 1)}</{tag}>{words(rng) * (not in_paragraph)}"


def blocks(rng: Random, depth: int) -> str:
    return "".join(block(rng, depth) for _ in range(rng.randrange(4)))


def article(rng: Random, number: int) -> str:
    stub = ("<response><front-stub><title-group><article-title>R</article-title></title-group>"
            f"</front-stub><body>{blocks(rng, 2)}</body></response>") * rng.randrange(2)
    return (f"<article><front><article-meta><article-id pub-id-type='pmc'>{number}</article-id>"
            f"<title-group><article-title>{inline(rng, 2)}</article-title></title-group>"
            f"<abstract>{blocks(rng, 2)}</abstract></article-meta></front><body>{words(rng)}"
            f"{blocks(rng, 4)}</body><back><ack>{blocks(rng, 2)}</ack></back>"
            f"<floats-group>{blocks(rng, 2)}</floats-group>{stub}</article>")


@pytest.mark.parametrize("parts", ["", "captions", ",".join(ARTICLE_PARTS)])
def test_every_character_of_any_article(tmp_path: Path, parts: str) -> None:
    config, rng = JatsConfig(parts), Random(parts)
    path = tmp_path / "in.xml"
    path.write_text("<pmc-articleset>" + "".join(
        article(rng, number) for number in range(ARTICLES)) + "</pmc-articleset>", "utf-8")
    records = list(jats_account(jats_records([str(path)], config), str(path), Counter(), config))
    for record in records:
        text = record["text"]
        assert text == text.strip() and "\n\n\n" not in text and "  " not in text
        for section in record["meta"].get("sections", ()):
            content = text[section["start"]:section["end"]]
            assert content and content == content.strip()
    assert len(records) >= ARTICLES / 2
