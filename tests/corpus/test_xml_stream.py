"""XML read in pieces, and XML that is rejected."""

from __future__ import annotations

import time
import tracemalloc
from html.entities import html5
from pathlib import Path

import pytest

from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import DataError
from bmtools.io.record_size import limiting_records

LAUGHS = ('<!DOCTYPE Set [<!ENTITY l0 "ha">'
          + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12)) + "]>")


def texts(path: str, children: bool = False) -> list[str]:
    return ["".join(element.itertext())
            for element in xml_elements(path, ("Set",), ("a",), children)]


@pytest.mark.parametrize("children", [False, True])
@pytest.mark.parametrize("content", [
    "<Set><a>1</a><a>2<i>3</i></a></Set>",
    '<?xml version="1.0"?>\n<!DOCTYPE Set PUBLIC "-//X" "http://nowhere.invalid/x.dtd">\n'
    "<Set>\n<a>1</a><!-- <a>no</a> --><b/>\n<a>2<!-- c -->3</a>\n</Set>\n",
    "<!-- c --><!DOCTYPE Set [<!-- c -->]><!-- c --><Set><!-- c --><b/><a>1<!-- c --></a><a>23</a>"
    "<!-- c --></Set>",
    b"\xef\xbb\xbf<Set><a>1</a><a>23</a></Set>",
    '<?xml version="1.0" encoding="UTF-16"?><Set><a>1</a><a>23</a></Set>'.encode("utf-16"),
    f"<Set><a>1</a>{' ' * 300_000}<a>23</a></Set>",
])
def test_elements_are_yielded_in_order(write, content: str | bytes, children: bool) -> None:
    assert texts(write(content), children) == ["1", "23"]


DTD = '<!DOCTYPE Set PUBLIC "-//X" "http://nowhere.invalid/x.dtd">'


def test_character_names_are_read_without_other_files(tmp_path: Path, write) -> None:
    (tmp_path / "s.dtd").write_text('<!ENTITY beta "another file"><!ENTITY own "another">')
    for declared in (DTD, f'<!DOCTYPE Set SYSTEM "file://{tmp_path}/s.dtd">',
                     f'<!DOCTYPE Set SYSTEM "{tmp_path}/s.dtd">'):
        path = write(f"{declared}<Set><a b='&lt;&beta;&LT;'>TGF-&beta;1 &NotEqualTilde; &lt;&lt;"
                      "&amp;amp; &LT;b&GT;&AMP;amp; &nbsp;&#946;<![CDATA[&beta;]]></a></Set>")
        [(text, attribute)] = [("".join(element.itertext()), element.get("b"))
                               for element in xml_elements(path, ("Set",), ("a",))]
        assert text == "TGF-β1 ≂̸ <<&amp; <b>&amp; \u00a0β&beta;"
        assert attribute == "<β<"
        with pytest.raises(DataError, match="the entity '&own;', which the file does not declare"):
            texts(write(f"{declared}<Set><a>&own;</a></Set>"))


def test_every_html_name_becomes_its_character(write) -> None:
    names = [name for name in html5 if name.endswith(";")]
    path = write(f"{DTD}<Set>{''.join(f'<a>&{name}</a>' for name in names)}</Set>")
    assert texts(path) == [html5[name] for name in names]


@pytest.mark.parametrize("body", ["<Set><a>&l11;</a></Set>", '<Set x="&l11;"><a>1</a></Set>'])
@pytest.mark.parametrize("start", ["", "<!-- <Set> -->", "<!--" + "x" * 200_000 + "-->"])
def test_an_entity_bomb_is_an_error_before_it_expands(write, start: str, body: str) -> None:
    path = write(start + LAUGHS + body)
    started = time.process_time()
    with pytest.raises(DataError, match=r"in\.xml:1: found a declaration of the entity 'l0'"):
        texts(path)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("declared", ['<!ENTITY f SYSTEM "file:///etc/hostname">',
                                      '<!ENTITY % p SYSTEM "http://nowhere.invalid/">',
                                      '<!ENTITY f "harmless">'])
def test_any_declared_entity_is_an_error(write, declared: str) -> None:
    path = write(f"<?xml version='1.0'?>\n<!DOCTYPE Set [\n{declared}]>\n<Set><a>&f;</a></Set>")
    with pytest.raises(DataError, match=r"in\.xml:3: found a declaration of the entity"):
        texts(path)


@pytest.mark.parametrize(("content", "message"), [
    ("<html>\n</html>", r"in\.xml:1: found the root element <html>, expected <Set>"),
    ("not xml\n", r"in\.xml:1: not XML"),
    ("\n", r"in\.xml:\d: damaged XML"),
    ("<Set>\n<a>1</a>\n<a>2", r"in\.xml:3: damaged XML"),
    ("<Set>\n<a>1</b></Set>", r"in\.xml:2: damaged XML .*mismatch"),
    ("<Set>\n<a>&nope;</a></Set>", r"in\.xml:2: found the entity '&nope;', which the file does"),
    ('<!DOCTYPE Set SYSTEM "s.dtd">\n<Set><a x="&nope;">1</a></Set>', r"in\.xml:2: found the en"),
    ("<Set>\n<a>1</a></Set>\n<Set></Set>", r"in\.xml:3: damaged XML"),
    ("<Set>\n<a>" + "<i>" * 10_000, "256 levels"), ("<Set><a>" + "x" * 11_000_000, "ten mega"),
    ("<Set>\n<a>x\0y</a></Set>", r"in\.xml:2: damaged XML"),
    ("<?xml version='1.0' encoding='x-none'?><Set/>", "not XML"),
    (b"<Set>\n<a>\xff\xfe</a></Set>", r"in\.xml:2: damaged XML"),
    ('<?xml version="1.0" encoding="UTF-7"?><Set/>', r"in\.xml:1: not XML"),
])
def test_damage_is_an_error_with_its_line(write, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        texts(write(content))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("start", "end", "children"), [
    ("<Set>", "</Set>", False), ("<Set>", "</Set>", True), ("<Set><c/><d>", "</d></Set>", False)],
    ids=["below the root", "children", "deeper"])
def test_memory_does_not_grow(write, start: str, end: str, children: bool) -> None:
    path = write(start + "<b><a>word<!-- c --></a><c/></b>\n<b/><!-- c -->" * 40_000 + end)
    elements = xml_elements(path, ("Set",), ("b",), children)
    most = 0
    tracemalloc.start()
    try:
        for number, element in enumerate(elements):
            if number % 1000 == 0:
                most = max(most, sum(1 for _ in element.itersiblings(preceding=True)))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert most < (10_000 if children else 2)


@pytest.mark.parametrize(("content", "message"), [
    ("<Set><!-- c --><b/><c/></Set>", r"in\.xml: found <b> in <Set>, expected <a>"),
    ("<Set><b><a/></b></Set>", r"in\.xml: found <b> in <Set>, expected <a>"),
    ("<Set xmlns='urn:x'><a/></Set>", r"in\.xml: found <{urn:x}a> in <{urn:x}Set>, expected <a>")])
def test_a_root_with_only_other_children_is_an_error(write, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(xml_elements(write(content), ("Set",), ("a",), children=True))


def test_line_numbers_are_correct_after_a_long_child(write) -> None:
    path = write("<Set>" + "<a>" + "\n" * 70_000 + "</a><a>1</a>\n<a>2</a></Set>")
    elements = xml_elements(path, ("Set",), ("a",))
    assert [element.sourceline for element in elements] == [1, 70_001, 70_002]


@pytest.mark.parametrize("content", ["<Set><a>" + "<b/>" * 400_000, "<Set><a>" + "x" * 2_000_000])
def test_a_child_larger_than_a_record_is_an_error(write, content: str) -> None:
    with limiting_records(1), pytest.raises(DataError, match=r"in\.xml:1: found a record of more"):
        list(xml_elements(write(f"{content}</a></Set>"), ("Set",), ("a",)))
