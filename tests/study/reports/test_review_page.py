"""The page on which a person corrects projected spans."""

import json
from html.parser import HTMLParser

from bmtools.records import Record
from bmtools.study.reports.pages import render_review_page
from bmtools.translation.projection.confidence import Vote
from bmtools.translation.projection.documents import pair_document
from bmtools.translation.projection.pairs import Projection
from bmtools.translation.projection.review import review_items

NASTY = '</script><script>alert(1)</script><!-- & "\'\u2028 \U0001f642 \ud800'


class Page(HTMLParser):
    """Gathers elements and the contents of scripts."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.ids, self.links = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.add(found.get("id"))
        self.links += [found[key] for key in ("src", "href", "action") if key in found]
        if tag == "script":
            self.scripts.append((found.get("type"), ""))

    def handle_data(self, data):
        if self.scripts and self.lasttag == "script":
            kind, before = self.scripts[-1]
            self.scripts[-1] = kind, before + data


def some_items():
    found = Projection(3, 10, 0.5)
    source = Record(id=NASTY, text=f"A drug {NASTY}", entities=[
        {"start": 2, "end": 6, "type": NASTY}])
    document = pair_document(source, Record(id=NASTY, text=f"Un farmaco {NASTY}"))
    return list(review_items(document, [[Vote(found, {"align": found})]], 0.9))


def test_the_page_has_its_data_and_nothing_from_outside():
    items = some_items()
    page = Page(render_review_page(items, "en", "it"))
    assert page.links == []
    [(kind, data), (_, program)] = page.scripts
    assert kind == "application/json"
    assert json.loads(data) == {"items": json.loads(json.dumps(items)), "languages": ["en", "it"]}
    assert "<" not in data
    assert "innerHTML" not in program
    used = set(program.split('element("')[1:])
    assert {one.partition('"')[0] for one in used} <= page.ids


def test_the_page_sends_no_request():
    text = render_review_page([])
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "")
