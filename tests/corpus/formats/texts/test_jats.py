"""Articles as records, with an account of every character."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lxml import etree

from bmtools.corpus.account import ADDED, IN_RECORDS, LEFT_OUT
from bmtools.corpus.formats.settings import ARTICLE_PARTS, JatsConfig
from bmtools.corpus.formats.texts.jats import jats_account, jats_records
from bmtools.records import Record, check

NAME = "in.nxml"
ARTICLE = """<!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.2//EN" "JATS-archivearticle1.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:mml="http://www.w3.org/1998/Math/MathML"
 xmlns:ali="http://www.niso.org/schemas/ali/1.0/" article-type="research-article" xml:lang="en-GB">
<?properties open_access?><front><journal-meta><journal-title-group><journal-title>Lungs
</journal-title></journal-title-group></journal-meta><article-meta>
<article-id pub-id-type="pmc">77</article-id><article-id pub-id-type="pmid">8</article-id>
<article-id pub-id-type="doi">10.1/x</article-id><title-group><article-title>On <italic>asthma
</italic><xref ref-type="fn" rid="f">*</xref></article-title><subtitle>A study</subtitle>
<alt-title>Asthma</alt-title></title-group><contrib-group><contrib><name><surname>Rossi</surname>
</name></contrib></contrib-group><pub-date pub-type="collection"><year>2019</year></pub-date>
<pub-date pub-type="epub"><year>2020</year></pub-date><permissions><license><ali:license_ref
 specific-use="textmining">https://creativecommons.org/licenses/by-nc/4.0/</ali:license_ref>
<license-p>See there.</license-p></license></permissions>
<abstract><sec><title>Aim:</title><p>To breathe.</p></sec></abstract>
<abstract abstract-type="summary"><title>In short</title><p>Breath.</p></abstract>
<trans-abstract xml:lang="it"><p>Respirare.</p></trans-abstract>
<kwd-group><kwd>asthma</kwd></kwd-group></article-meta></front>
<body><p>Before any section.</p>
<sec sec-type="methods"><label>1</label><title>Methods</title><p>We took 10<sup>6</sup> cells
 m<sup>2</sup> [<xref ref-type="bibr" rid="r1">1</xref>,<xref ref-type="bibr" rid="r2">2</xref>].
 See<fig><label>Fig 1</label><caption><title>Lungs.</title><p>Two, by Orr <xref ref-type="bibr"
 rid="r1">[1]</xref>.</p></caption><alt-text>photo</alt-text></fig> there.</p>
<sec><title>Cells</title><sec><title>Deep <bold>down</bold></title><p>Nested. </p><p/>
<list><list-item><label>a</label><p>One</p></list-item><list-item><p>Two<list><list-item>
<p>Two b</p></list-item></list></p></list-item></list></sec><p>After it.</p></sec></sec>
<sec><p>No title<break/>here<xref ref-type="bibr" rid="r1"><sup>3</sup></xref>:
<disp-quote><p>Quoted.</p></disp-quote> where <inline-formula><mml:math><mml:mi>x</mml:mi>
</mml:math></inline-formula> is<disp-formula><tex-math>y^2</tex-math></disp-formula>
small<fn><p>Not very.</p></fn>.</p><boxed-text><caption><title>Box</title></caption><p>Boxed.</p>
</boxed-text><def-list><def-item><term>FEV</term><def><p>Volume.</p></def></def-item></def-list>
<table-wrap><caption><p>Numbers.</p></caption><table><tbody><tr><td>1.5</td></tr></tbody></table>
<table-wrap-foot><p>n</p></table-wrap-foot></table-wrap>stray</sec>
<sec><title>Extra</title><supplementary-material><caption><p>File</p></caption>
</supplementary-material></sec></body>
<back><ack><p>We thank.</p></ack><ref-list><title>References</title><ref><mixed-citation>Orr H
</mixed-citation></ref></ref-list></back><floats-group><fig><caption><p>Late.</p></caption></fig>
</floats-group><response response-type="reply" xml:lang="it"><front-stub><title-group>
<article-title>Reply</article-title></title-group></front-stub><body><p>Grazie.</p></body></response>
<sub-article article-type="letter"><front-stub><title-group><article-title>No text</article-title>
</title-group></front-stub></sub-article></article>"""
TEXT = """Aim:
To breathe.
In short
Breath.
Before any section.
Methods
We took 10⁶ cells m2 [1,2]. See there.
Cells
Deep down
Nested.
One
Two
Two b
After it.
No title here 3:
Quoted.
where x is small.
Box
Boxed.
FEV
Volume.
stray
Extra""".replace("\n", "\n\n")
CONFIGS = [JatsConfig(",".join(parts)) for parts in ((), ARTICLE_PARTS[:1], ARTICLE_PARTS)]


def read(path: str, config: JatsConfig | None = None) -> list[Record]:
    """Read articles with their account, and compare it with the text nodes in another way."""
    counts, config = Counter[str](), config or JatsConfig()
    records = list(jats_account(jats_records([path], config), path, counts, config))
    parser = etree.XMLParser(load_dtd=False, remove_comments=True, remove_pis=True)
    text = "".join(etree.parse(path, parser).getroot().itertext())
    assert sum(counts.values()) - counts[ADDED] == len("".join(text.split()))
    for record in records:
        check(record)
    return records


def one(path: str, **options: Any) -> Record:
    record, = read(path, JatsConfig(**options))
    return record


def test_a_record_is_read(write) -> None:
    record = one(write(ARTICLE))
    assert record["text"] == TEXT
    del record["meta"]["sections"]
    assert record.without("text") == {
        "id": "PMC77", "title": "On asthma: A study", "lang": "en", "licence": "CC-BY-NC-4.0",
        "meta": {"journal": "Lungs", "year": 2020, "pmid": "8", "doi": "10.1/x",
                 "types": ["research-article"], "keywords": ["asthma"]}}


@pytest.mark.parametrize(("month", "expected"), [
    ("<month>03</month>", 3), ("<month>11</month>", 11), ("<month>13</month>", None),
    ("<month>Spring</month>", None)])
def test_the_month_of_publication_is_read(write, month: str, expected: int | None) -> None:
    record = one(write(ARTICLE.replace("<year>2020", f"{month}<year>2020")))
    assert (record["meta"]["year"], record["meta"].get("month")) == (2020, expected)


def test_sections_have_labels_and_offsets(write) -> None:
    record = one(write(ARTICLE))
    found = [(section["path"], section.get("type"), record["text"][section["start"]:section["end"]])
             for section in record["meta"]["sections"]]
    deep = "Nested.\n\nOne\n\nTwo\n\nTwo b"
    assert found == [
        (["Abstract"], "abstract", "Aim:\n\nTo breathe."),
        (["Abstract", "Aim"], None, "To breathe."),
        (["In short"], "summary", "Breath."),
        (["Methods"], "methods", TEXT.partition("Methods\n\n")[2].partition("\n\nNo title")[0]),
        (["Methods", "Cells"], None, f"Deep down\n\n{deep}\n\nAfter it."),
        (["Methods", "Cells", "Deep down"], None, deep)]
    assert all(section["label"] == section["path"][-1]
               and section["depth"] == len(section["path"])
               for section in record["meta"]["sections"])


def test_parts_are_included(write) -> None:
    path = write(ARTICLE)
    assert one(path, include="captions")["text"] == TEXT.replace(
        "See there.", "See there.\n\nLungs.\n\nTwo, by Orr [1].").replace(
        "stray", "Numbers.\n\nstray") + "\n\nLate."
    assert one(path, include="back")["text"] == TEXT + "\n\nWe thank."
    assert one(write(ARTICLE.replace("<tex-math>y^2</tex-math>", "<label>(1)</label>y = 2")),
               include="formulas")["text"] == TEXT.replace("is small", "is\n\ny = 2\n\nsmall")


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_character_is_accounted_for(write, config: JatsConfig) -> None:
    assert read(write(ARTICLE), config)


def test_mathml_fractions_and_powers_are_kept(write) -> None:
    formula = ("<mml:mfrac><mml:mn>1</mml:mn><mml:mn>2</mml:mn></mml:mfrac>·<mml:msup><mml:mn>10"
               "</mml:mn><mml:mn>6</mml:mn></mml:msup>")
    article = one(write(ARTICLE.replace("<mml:mi>x</mml:mi>", formula)))
    assert "where 1/2·10⁶ is" in article["text"]


def test_omitted_elements_have_classes(write) -> None:
    path, counts, config = write(ARTICLE), Counter[str](), JatsConfig()
    list(jats_account(jats_records([path], config), path, counts, config))
    assert {name: count for name, count in counts.items() if name != IN_RECORDS} == {
        ADDED: 1, **{LEFT_OUT.format(name): count for name, count in {
            "authors": 5, "captions": 32, "back matter": 8, "figures": 5,
            "footnotes": 9, "formulas": 3, "keywords": 6, "labels": 6, "licences": 56,
            "metadata": 28, "references": 14, "sub-articles": 18, "supplementary material": 4,
            "tables": 4, "translations": 10}.items()}}


def test_stray_text_is_counted(write) -> None:
    path, counts, config = write(ARTICLE.replace("<body>", "stray<x>stray</x><body>").replace(
        "<article-meta>", "<notes><p>Note.</p></notes>stray<article-meta>stray")), Counter(), \
        JatsConfig()
    record, = jats_account(jats_records([path], config), path, counts, config)
    assert record["text"] == TEXT
    assert (counts[LEFT_OUT.format("stray text")], counts[LEFT_OUT.format("front matter")]) == (
        20, 5)


def test_oai_responses_with_a_namespace_are_read(write) -> None:
    _, _, article = ARTICLE.partition("<article ")
    path = write('<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026'
                  "</responseDate><ListRecords><record><header><identifier>oai:1</identifier></header>"
                  '<metadata><article xmlns="https://jats.nlm.nih.gov/ns/archiving/1.2/" '
                  f"{article}</metadata></record></ListRecords></OAI-PMH>")
    assert one(path) == one(write(ARTICLE))


def test_an_article_without_text_is_counted(write) -> None:
    path, counts, config = write(
        "<pmc-articleset><article><front><article-meta><title-group><article-title>T</article-title>"
        "</title-group></article-meta></front></article><article><body><p>B</p></body></article>"
        "</pmc-articleset>"), Counter[str](), JatsConfig()
    record, = jats_account(jats_records([path], config, counts=counts), path, counts, config)
    assert (record["id"], record["text"]) == ("in:1", "B")
    assert counts == {"articles without text left out": 1, IN_RECORDS: 1,
                      LEFT_OUT.format("articles without text"): 1}


@pytest.mark.parametrize(("stated", "name"), [
    ('<license xlink:href="http://creativecommons.org/licenses/by/2.0"/>', "CC-BY-2.0"),
    ('<license license-type="open-access"><license-p>under the Creative Commons Attribution '
     "Non-Commercial No Derivatives 3.0 License</license-p></license>", "CC-BY-NC-ND-3.0"),
    ('<license><p>CC BY</p></license>', "CC-BY"),
    ('<license license-type="CC0"/>', "CC0-1.0"),
    ("<copyright-statement>Creative Commons Attribution License</copyright-statement>", "CC-BY"),
    ("<license><license-p>All rights reserved.</license-p></license>", None)])
def test_licences_are_recognised(write, stated: str, name: str | None) -> None:
    start, _, rest = ARTICLE.partition("<license>")
    record = one(write(start + stated + rest.partition("</license>")[2]))
    assert record.get("licence") == name


def test_archives_are_read(tmp_path: Path) -> None:
    other = ARTICLE.replace(">77<", ">PMC78<")
    path = f"{tmp_path}/b.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (("a/77.nxml", ARTICLE), ("../78.nxml", "<article/>"),
                              ("a/link.nxml", ""), ("a/photo.jpg", "x"), ("a/78.xml", other)):
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            member.type = member.type if content else tarfile.SYMTYPE
            archive.addfile(member, io.BytesIO(content.encode()))
    counts = Counter[str]()
    records = list(jats_records([path], counts=counts))
    assert [record["id"] for record in records] == ["PMC77", "PMC78"]
    assert records[1].place == f"{path}/a/78.xml:3"
    assert counts == {"files with a path outside their archive passed over": 1,
                      "links and devices passed over": 1,
                      "files that do not end in .nxml or .xml passed over": 1}
    config = JatsConfig("captions")
    assert len(list(jats_account(jats_records([path], config), path, counts, config))) == 2


@pytest.mark.data
def test_real_articles_are_read(data: Path) -> None:
    licences = []
    for path in sorted((data / "en" / "pmc-nxml").glob("*.nxml")):
        for config in CONFIGS[1:]:
            read(str(path), config)
        record, = read(str(path))
        licences.append((record["id"], record.get("licence"), record["meta"]["year"]))
        root = etree.parse(path, etree.XMLParser(load_dtd=False, remove_pis=True)).getroot()
        outside = ("not(ancestor::fn or ancestor::caption or ancestor::table-wrap or "
                   "ancestor::supplementary-material)")
        parts = "(front/article-meta/abstract|body)"
        blocks = root.xpath(f"{parts}//*[self::p or self::title][{outside}]")
        lines = [" ".join("".join(block.itertext()).split()) for block in blocks]
        assert len(record["text"].split("\n\n")) == len([line for line in lines if line])
        titles = [line for block, line in zip(blocks, lines, strict=True) if block.tag == "title"]
        labels = [section["label"] for section in record["meta"]["sections"]]
        # "Supplementary Material" contains only files; "Abstract" is a label without a heading.
        assert labels[labels[0] == "Abstract":] == [
            title.rstrip(":") for title in titles if title not in (
                "Supplementary Material", "Supporting Information")][:len(labels)]
    assert licences == [
        ("PMC3166277", "CC-BY-2.0", 2011), ("PMC2329613", "CC-BY-2.0", 2008),
        ("PMC2994229", None, 2010), ("PMC2599765", "CC-PDM-1.0", 2008),
        ("PMC3585041", "CC-BY", 2013), ("PMC1790863", "CC-BY", 2007)]


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
