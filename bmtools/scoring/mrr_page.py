"""A page of scores, pictures and words; it stands alone, without scripts and without a network."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from xml.etree import ElementTree

from bmtools.records import MASK
from bmtools.scoring.mrr_items import (
    MrrItem,
    Score,
    around,
    by_group,
    choose_item,
    lines_of,
    ordinal,
    overall,
    percent,
    rank_text,
    short_names,
    sort_by_agreement,
    visible,
)

_MOST_ROWS = 1000
_CONTEXT_CHARACTERS = 60
PNG_DPI = 150
_PAGE_DPI = 96  # what a pixel is on a page
_DASH = "\N{EN DASH}"
# Pictures are drawn for white paper and keep it in the dark.
_LOOK = """
:root { color-scheme: light dark; --ink: #1f2328; --faint: #59636e; --paper: #ffffff;
  --line: #d1d9e0; --mark: #cdeee2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9198a1;
  --paper: #14181d; --line: #3d444d; --mark: #14503c; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif;
  margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
h2 { break-after: avoid; } figure { margin: 1.2rem 0; break-inside: avoid; }
.paper { background: #ffffff; border: 1px solid var(--line); border-radius: 6px; padding: .6rem;
  overflow-x: auto; }
.paper > * { display: block; margin: 0 auto; }
figcaption, .note { color: var(--faint); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .7rem .25rem 0; text-align: left;
  vertical-align: top; }
th { vertical-align: bottom; }
td.number, th.number { text-align: right; }
td.number { white-space: nowrap; }
blockquote { overflow-wrap: anywhere; }
blockquote { border-left: 3px solid var(--line); margin: .6rem 0; padding-left: .9rem; }
mark { background: var(--mark); color: inherit; font-weight: 600; padding: 0 .2rem; }
summary { cursor: pointer; font-weight: 600; margin: .5rem 0; }
code { overflow-wrap: anywhere; }
@media print { :root { --ink: #000; --faint: #444; --paper: #fff; --line: #bbb; --mark: #ddd; }
  body { margin: 0; max-width: none; font-size: 10pt; } tr { break-inside: avoid; }
  .wide, .paper { overflow: visible; } main > .wide { break-inside: avoid; }
  .paper > * { height: auto; max-height: 23cm; max-width: 100%; object-fit: contain; } }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture as it is written, and what to say of it.

    Args:
        name: of the file, without its ending.
        kind: svg or png.
        title: a few words.
        caption: what is drawn, and what is left out.
        image: the bytes of the file.
        hovers: what parts of an svg say where the pointer rests on them, by id.
    """

    name: str
    kind: str
    title: str
    caption: str
    image: bytes
    hovers: Mapping[str, str]

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.name}.{self.kind}"


def write_page(maskings: Sequence[MrrItem], models: Sequence[str],
               lines: Sequence[Mapping[str, Any]], pictures: Sequence[Plot], shown: MrrItem,
               top: int) -> str:
    """Spell the whole page.

    Args:
        maskings: each under all models.
        models: names or paths.
        lines: scores as the command prints them.
        pictures: what was drawn; the one named predictions is a table here.
        shown: the masking whose proposals to show.
        top: last rank that counts.
    """
    names = short_names(models)
    groups = by_group(maskings, models, lines)
    title = f"Mean reciprocal rank: {_many(len(maskings), 'masking')}, " \
        f"{_many(len(models), 'model')}"
    figures = {picture.name: _figure(picture) for picture in pictures}
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<h2>Scores</h2>", _scores(maskings, models, names, lines),
        "<h2>Over models</h2>", figures.pop("progression", ""),
        "<h2>Proposals for one masking</h2>", _proposals(shown, names, top),
        _how_picked(maskings, shown),
        *_groups(groups, names, figures.pop("domains", "")),
        *_flows(figures),
        "<h2>Words</h2>", _words(maskings, names, top),
        _signatures(models, lines),
    ]
    body = "\n".join(part for part in parts if part)
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(title)}</title>\n<style>{_LOOK}</style>\n</head>\n"
            f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# Tables


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Lay out a table of cells that are HTML already.

    Args:
        numbers: columns from the right that hold numbers.
    """
    heads = list(heads)
    first = len(heads) - numbers
    head = "".join(f'<th scope="col"{_number(column >= first)}>{cell}</th>'
                   for column, cell in enumerate(heads))
    body = "\n".join(
        "<tr>" + "".join(f"<td{_number(column >= first)}>{cell}</td>"
                         for column, cell in enumerate(row)) + "</tr>" for row in rows)
    return (f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>'
            "\n</table></div>")


def _number(holds: bool) -> str:
    return ' class="number"' if holds else ""


def _head(name: str) -> str:
    """Let the path of a model break behind the signs that paths are built with."""
    return re.sub(r"([/_.\-])", r"\1<wbr>", escape(name))


def _foreign(text: str) -> str:
    """Escape text whose language is not that of the page."""
    return f'<bdi lang="" translate="no">{escape(visible(text))}</bdi>'


def _scores(maskings: Sequence[MrrItem], models: Sequence[str], names: Sequence[str],
            lines: Sequence[Mapping[str, Any]]) -> str:
    columns = [("hits at 1", "hits_at_1"), ("hits at 5", "hits_at_5"), ("maskings", "maskings"),
               ("several tokens", "multi_token"), ("unknown", "unknown")]
    found = lines_of(models, lines)
    columns = [(head, key) for head, key in columns if any(key in line for line in found)]
    rows = [[_named(name, model), f"<strong>{score.mrr:.4f}</strong>", _interval(score),
             *(_shown(line.get(key)) for _, key in columns)]
            for name, model, score, line in zip(names, models, overall(maskings, models, lines),
                                                found, strict=True)]
    return _table(["model", "mean reciprocal rank", "interval", *(head for head, _ in columns)],
                  rows, numbers=2 + len(columns))


def _named(name: str, model: str) -> str:
    path = "" if name == visible(model) else f'<br><span class="note">{escape(visible(model))}' \
        "</span>"
    return f"{escape(name)}{path}"


def _interval(score: Score) -> str:
    return "[{:.3f}, {:.3f}]".format(*score.interval) if score.interval else _DASH


def _shown(value: Any) -> str:
    if value is None:
        return _DASH
    return f"{value:.4f}" if isinstance(value, float) else escape(visible(str(value)))


def _proposals(shown: MrrItem, names: Sequence[str], top: int) -> str:
    """Show the first tokens of each model for one masking (Buonocore et al. 2023, table 6)."""
    before, mask, after = shown.text.partition(MASK)
    rows = [[ordinal(row + 1), *(_proposal(shown, model, row) for model in range(len(names)))]
            for row in range(min(top, max(map(len, shown.proposals), default=0)))]
    rows.append(["reciprocal rank", *(f"<strong>{value:.2f}</strong>"
                                      for value in shown.reciprocal_ranks)])
    rows.append(["rank", *map(rank_text, shown.ranks)])
    return (f"<blockquote>{_foreign(before) if before else ''}<mark>{escape(mask)}</mark>"
            f"{_foreign(after) if after else ''}</blockquote>"
            f"<p>{escape(MASK)} = {_foreign(shown.target)} "
            f'<span class="note">({_foreign(shown.name)})</span></p>'
            + _table(["rank", *map(_head, names)], rows))


def _how_picked(maskings: Sequence[MrrItem], shown: MrrItem) -> str:
    if shown is not choose_item(maskings) or not shown.spread:
        return ""
    return ('<p class="note">Shown is the masking whose reciprocal ranks differ most between '
            "models; among equals the one where they take the most values, then the first.</p>")


def _proposal(shown: MrrItem, model: int, row: int) -> str:
    if row >= len(shown.proposals[model]):
        return ""
    token, probability = shown.proposals[model][row]
    word = _foreign(token)
    if row == shown.marked(model):
        word = f"<mark>{word}</mark>"
    return f"{word} {escape(percent(probability))}"


def _groups(groups: Mapping[str, Mapping[str, Sequence[Score | None]]], names: Sequence[str],
            domains: str) -> Iterator[str]:
    for kind, scores in groups.items():
        yield f"<h2>By {escape(visible(kind))}</h2>"
        if kind == "domain":
            yield domains
        rows = [[escape(visible(group)), *(_group_score(score) for score in row)]
                for group, row in scores.items()]
        yield _folded(f"{_many(len(rows), 'group')}: mean reciprocal rank (maskings)",
                      _table([escape(visible(kind)), *map(_head, names)], rows, len(names)))


def _group_score(score: Score | None) -> str:
    if score is None:
        return _DASH
    return f"{score.mrr:.3f}" + ("" if score.maskings is None else f" ({score.maskings})")


def _flows(figures: Mapping[str, str]) -> Iterator[str]:
    flows = [figure for name, figure in figures.items() if name.startswith("flow-")]
    if flows:
        yield "<h2>From model to model</h2>"
        yield from flows


def _folded(summary: str, content: str) -> str:
    return f"<details>\n<summary>{escape(summary)}</summary>\n{content}\n</details>"


# Words


def _words(maskings: Sequence[MrrItem], names: Sequence[str], top: int) -> str:
    """List maskings by whether models agree, the greatest gains from first to last model first."""
    parts = sort_by_agreement(maskings)
    changing = sorted(parts.changing, key=lambda masking: (
        masking.reciprocal_ranks[0] - masking.reciprocal_ranks[-1]))
    lists = [("Changing between models", changing, "the greatest gains first"),
             ("Always found, at one rank", parts.steady, ""),
             ("Never found", parts.never, f"not among the first {top} under any model")]
    note = (f'<p class="note">Ranks beyond {top} count nothing. {_DASH}: not among what the model '
            "could propose.</p>")
    return note + "\n".join(
        _folded(f"{head}: {_many(len(listed), 'masking')}{', ' + how if how else ''}",
                _listed(listed, names)) for head, listed, how in lists if listed)


def _listed(maskings: Sequence[MrrItem], names: Sequence[str]) -> str:
    rows = [[f"<strong>{_foreign(masking.target)}</strong>",
             _foreign(around(masking.text, MASK, _CONTEXT_CHARACTERS)),
             _foreign(masking.domain) if masking.domain else "",
             _foreign(masking.name), *map(rank_text, masking.ranks)]
            for masking in maskings[:_MOST_ROWS]]
    rest = len(maskings) - len(rows)
    more = f'<p class="note">{rest} more are not listed.</p>' if rest else ""
    return _table(["word", "around", "domain", "id", *map(_head, names)], rows,
                  len(names)) + more


def _signatures(models: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> str:
    rows = [[escape(visible(model)), f"<code>{escape(str(line['signature']))}</code>"]
            for model, line in zip(models, lines_of(models, lines), strict=True)
            if "signature" in line]
    return _folded("How the scores were made", _table(["model", "signature"], rows)) if rows else ""


# Pictures


def _figure(picture: Plot) -> str:
    drawn = _inlined(picture) if picture.kind == "svg" else _embedded(picture)
    return (f'<figure>\n<div class="paper">{drawn}</div>\n'
            f"<figcaption>{escape(picture.title)} ({escape(picture.file)})</figcaption>\n"
            "</figure>")


def _embedded(picture: Plot) -> str:
    data = base64.b64encode(picture.image).decode("ascii")
    width, height = (pixels * _PAGE_DPI // PNG_DPI
                     for pixels in struct.unpack(">II", picture.image[16:24]))
    return (f'<img alt="{escape(picture.caption)}" width="{width}" height="{height}" '
            f'src="data:image/png;base64,{data}">')


def _inlined(picture: Plot) -> str:
    """Turn an SVG file into an element of a page: ids of its own, no namespaces, parts that speak.

    Ids that two pictures share would make the second borrow from the first.
    """
    root = ElementTree.fromstring(picture.image)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(key): _owned(key, value, picture.name)
                          for key, value in element.attrib.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in {"metadata", "style"}]:
            parent.remove(child)
    # What the style element said, which would have ruled the whole page.
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt", "role": "img",
                    "aria-label": picture.caption}
    for element in list(root.iter()):
        said = picture.hovers.get(element.get("id", "").removeprefix(f"{picture.name}-"))
        if said is not None:
            spoken = ElementTree.Element("title")
            spoken.text = said
            element.insert(0, spoken)
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _owned(key: str, value: str, owner: str) -> str:
    """Give an attribute that names a part of the picture the picture's own name in front."""
    if key == "id":
        return f"{owner}-{value}"
    if _local(key) == "href" and value.startswith("#"):
        return f"#{owner}-{value[1:]}"
    return value.replace("url(#", f"url(#{owner}-") if key in {"clip-path", "mask", "fill"} \
        else value
