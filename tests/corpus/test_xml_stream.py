"""XML read piece by piece, and what is refused."""

from __future__ import annotations

import time
import tracemalloc
from html.entities import html5
from pathlib import Path
from random import Random

import pytest
from lxml import etree
from robustness.fuzz_mutations import mutate

from bmtools.corpus import xml_stream
from bmtools.corpus.xml_stream import xml_children, xml_elements
from bmtools.errors import DataError
from bmtools.io.record_size import limiting_records

LAUGHS = ('<!DOCTYPE Set [<!ENTITY l0 "ha">'
          + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12)) + "]>")


@pytest.fixture
def source(tmp_path: Path):
    def write(content: str | bytes) -> str:
        path = tmp_path / "in.xml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def texts(path: str) -> list[str]:
    return ["".join(element.itertext()) for element in xml_elements(path, ("Set",), ("a",))]


@pytest.mark.parametrize("content", [
    "<Set><a>1</a><a>2<i>3</i></a></Set>",
    '<?xml version="1.0"?>\n<!DOCTYPE Set PUBLIC "-//X" "http://nowhere.invalid/x.dtd">\n'
    "<Set>\n<a>1</a><!-- <a>no</a> --><b/>\n<a>2<!-- c -->3</a>\n</Set>\n",
    b"\xef\xbb\xbf<Set><a>1</a><a>23</a></Set>",
    '<?xml version="1.0" encoding="UTF-16"?><Set><a>1</a><a>23</a></Set>'.encode("utf-16"),
])
def test_elements(source, content: str | bytes) -> None:
    assert texts(source(content)) == ["1", "23"]


DTD = '<!DOCTYPE Set PUBLIC "-//X" "http://nowhere.invalid/x.dtd">'


def test_names_of_characters_are_read_and_no_other_file(tmp_path: Path, source) -> None:
    (tmp_path / "s.dtd").write_text('<!ENTITY beta "another file"><!ENTITY own "another">')
    for declared in (DTD, f'<!DOCTYPE Set SYSTEM "file://{tmp_path}/s.dtd">',
                     f'<!DOCTYPE Set SYSTEM "{tmp_path}/s.dtd">'):
        path = source(f"{declared}<Set><a b='&lt;&beta;&LT;'>TGF-&beta;1 &NotEqualTilde; &lt;&lt;"
                      "&amp;amp; &LT;b&GT;&AMP;amp; &nbsp;&#946;<![CDATA[&beta;]]></a></Set>")
        [(text, attribute)] = [("".join(element.itertext()), element.get("b"))
                               for element in xml_elements(path, ("Set",), ("a",))]
        assert text == "TGF-β1 ≂̸ <<&amp; <b>&amp; \u00a0β&beta;"
        assert attribute == "<β<"
        with pytest.raises(DataError, match="the entity '&own;', which the file does not declare"):
            texts(source(f"{declared}<Set><a>&own;</a></Set>"))


def test_every_name_of_html_is_that_character(source) -> None:
    names = [name for name in html5 if name.endswith(";")]
    path = source(f"{DTD}<Set>{''.join(f'<a>&{name}</a>' for name in names)}</Set>")
    assert texts(path) == [html5[name] for name in names]


@pytest.mark.parametrize("body", ["<Set><a>&l11;</a></Set>", '<Set x="&l11;"><a>1</a></Set>'])
@pytest.mark.parametrize("start", ["", "<!-- <Set> -->", "<!--" + "x" * 200_000 + "-->"])
def test_an_entity_bomb_is_refused_at_once(source, start: str, body: str) -> None:
    path = source(start + LAUGHS + body)
    started = time.process_time()
    with pytest.raises(DataError, match=r"in\.xml:1: found a declaration of the entity 'l0'"):
        texts(path)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("declared", ['<!ENTITY f SYSTEM "file:///etc/hostname">',
                                      '<!ENTITY % p SYSTEM "http://nowhere.invalid/">',
                                      '<!ENTITY f "harmless">'])
def test_any_entity_is_refused(source, declared: str) -> None:
    path = source(f"<?xml version='1.0'?>\n<!DOCTYPE Set [\n{declared}]>\n<Set><a>&f;</a></Set>")
    with pytest.raises(DataError, match=r"in\.xml:3: found a declaration of the entity"):
        texts(path)


@pytest.mark.parametrize(("content", "message"), [
    ("<html>\n</html>", r"in\.xml:1: found the root element <html>, expected <Set>"),
    ("not xml\n", r"in\.xml:1: not XML"),
    ("\n", r"in\.xml:\d: damaged XML"),
    ("<Set>\n<a>1</a>\n<a>2", r"in\.xml:3: damaged XML"),
    ("<Set>\n<a>1</b></Set>", r"in\.xml:2: damaged XML .*mismatch"),
    ("<Set>\n<a>&nope;</a></Set>", r"in\.xml:2: found the entity '&nope;', which the file does"),
    ("<Set>\n<a>&beta;</a></Set>", r"in\.xml:2: found the entity '&beta;', which the file does"),
    ('<!DOCTYPE Set SYSTEM "s.dtd">\n<Set><a x="&nope;">1</a></Set>', r"in\.xml:2: found the en"),
    ('<!DOCTYPE Set SYSTEM "s.dtd">\n<Set><a>&nope;</a></Set>', r"in\.xml:2: found the entity"),
    ("<Set>\n<a>1</a></Set>\n<Set></Set>", r"in\.xml:3: damaged XML"),
    (b"<Set>\n<a>\xff\xfe</a></Set>", r"in\.xml:2: damaged XML"),
    ('<?xml version="1.0" encoding="UTF-7"?><Set/>', r"in\.xml:1: not XML"),
])
def test_damage_is_one_message_with_its_line(source, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        texts(source(content))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("start", "end"), [("<Set>", "</Set>"), ("<Set><c/><d>", "</d></Set>")],
                         ids=["below the root", "deeper"])
def test_memory_does_not_grow(source, start: str, end: str) -> None:
    path = source(start + "<b><a>word</a><c/></b>\n<b/>" * 40_000 + end)
    elements = xml_elements(path, ("Set",), ("b",))
    tracemalloc.start()
    try:
        for element in elements:
            assert element.getprevious() is None or element.getprevious().getprevious() is None
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


BODY = "".join(f"<a><b x='{number}'>one\n<i>two</i> <i>three</i>\n</b>\n</a>\n\n<a>"
               f"{'x' * number}</a>" for number in range(0, 40, 7))
DOCUMENTS = {
    "plain": f"<Set>{BODY}</Set>\n",
    "prolog": f"<?xml version='1.0' encoding='utf-8'?>\n{DTD}<!-- <Set> -->\n<Set>\n{BODY}</Set>",
    "names of characters": f"{DTD}<Set>{BODY}<a>&beta; &lt;</a>{BODY}</Set>",
    "comments": f"<Set>{BODY}<!-- <a> --><a>1</a><?x <a>?>{BODY}</Set><!-- -->",
    "other elements": f"<Set>{BODY}<c><a>no</a></c><a/>text<a >2</a >{BODY}</Set>",
    "nested": f"<Set>{BODY}<a>1<a>2</a></a>{BODY}</Set>",
    "sections": f"<Set>{BODY}<a><![CDATA[</a><a>]]></a>{BODY}</Set>",
    "attributes": f"<Set z='1' xmlns:y='urn:y'>{BODY}<y:a>1</y:a></Set>",
    "a root that goes on": f"<Set\n>{BODY}</Set>",
    "declarations": f"<!DOCTYPE Set [<!ATTLIST a z CDATA 'w'>]><Set>{BODY}</Set>",
    "another encoding": f"<?xml version='1.0' encoding='latin-1'?><Set>{BODY}<a>\u00e9</a></Set>",
    "a second root": f"<Set>{BODY}</Set><Set>{BODY}</Set>",
    "an end too early": f"<Set>{BODY}<a>1</a></x><x><a>2</a></Set>",
    "a tag that is left open": f"<Set>{BODY}<a><b></a>{BODY}</Set>",
    "empty lines": f"<Set>{' ' * 2000}<a>1</a>{chr(10) * 3000}{BODY}</Set>",
    "nothing": "<Set/>", "no root": "<?xml version='1.0'?>\n", "cut": f"<Set>{BODY}",
}


def children(path: str, cut: bool) -> list[tuple[int, bytes] | str]:
    """Read the children of the root, whole or cut, and the message at the end."""
    read = xml_children(path, ("Set",), ("a",)) if cut else (
        (element.sourceline, element) for element in xml_elements(path, ("Set",), ("a",))
        if element.getparent().getparent() is None)
    found: list[tuple[int, bytes] | str] = []
    try:
        for line, element in read:
            found.append((line, etree.tostring(element, with_tail=False)))
    except DataError as error:
        found.append(str(error))
    return found


def check_same(path: str) -> None:
    """Compare both ways; only where a file is damaged, one may yield less of what is before."""
    cut, whole = children(path, True), children(path, False)
    assert cut[-1:] == whole[-1:]
    assert cut[:len(whole) - 1] == whole[:-1]
    assert len(cut) == len(whole) or isinstance(whole[-1], str)


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize("chunk", [7, 100, 1 << 17])
def test_children_are_the_same_when_cut(source, monkeypatch: pytest.MonkeyPatch, kind: str,
                                        chunk: int) -> None:
    monkeypatch.setattr(xml_stream, "_CHUNK", chunk)
    encoding = "latin-1" if kind == "another encoding" else "utf-8"
    check_same(source(DOCUMENTS[kind].encode(encoding)))


def test_most_children_are_cut(source) -> None:
    """Else the test above would compare a reader with itself."""
    path = Path(source(DOCUMENTS["prolog"]))
    with path.open("rb") as stream:
        cutter = xml_stream._Cutter("", stream, xml_stream._Prolog("", ("Set",)), ("a",))
        assert len(list(cutter.children())) == 12
        rest = b"".join([*cutter.before(), *cutter.rest()])
        assert rest.replace(b"\n", b"").endswith(b"<Set><!----></Set>")


@pytest.mark.parametrize("kind", ["prolog", "names of characters", "comments"])
def test_damaged_children_are_the_same_when_cut(source, kind: str) -> None:
    whole = DOCUMENTS[kind].encode()
    for seed in range(150):
        check_same(source(mutate(whole, Random(seed))))


@pytest.mark.parametrize(("content", "told"), [
    ("<Set><b/><c/></Set>", r"in\.xml: found <b> in <Set>, expected <a>"),
    ("<Set><b><a/></b></Set>", r"in\.xml: found <b> in <Set>, expected <a>"),
    ("<Set xmlns='urn:x'><a/></Set>", r"in\.xml: found <{urn:x}a> in <{urn:x}Set>, expected <a>")])
def test_a_root_with_other_children_alone_is_refused(source, content: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        list(xml_children(source(content), ("Set",), ("a",)))


def test_memory_does_not_grow_where_children_are_cut(source) -> None:
    path = source("<Set>" + "<b><a>word</a><c/></b>\n" * 60_000 + "</Set>")
    tracemalloc.start()
    try:
        assert sum(1 for _ in xml_children(path, ("Set",), ("b",))) == 60_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_child_of_many_lines_keeps_lines_right(source) -> None:
    path = source("<Set>" + "<a>" + "\n" * 70_000 + "</a><a>1</a>\n<a>2</a></Set>")
    assert [line for line, _ in xml_children(path, ("Set",), ("a",))] == [1, 70_001, 70_002]


@pytest.mark.parametrize("content", ["<Set><a>" + "<b/>" * 400_000, "<Set><a>" + "x" * 2_000_000])
def test_a_child_larger_than_a_record_is_refused(source, content: str) -> None:
    with limiting_records(1), pytest.raises(DataError, match=r"in\.xml:1: found a record of more"):
        list(xml_children(source(f"{content}</a></Set>"), ("Set",), ("a",)))
