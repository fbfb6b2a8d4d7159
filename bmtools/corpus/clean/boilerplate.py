"""Boilerplate: copyright lines, publishers' phrases, navigation of web pages."""

from __future__ import annotations

import re
from collections.abc import Callable

from bmtools.corpus.clean.edits import EditedText

# A sentence or a line begins after these, with what white space there is.
_BEGIN = r"(?:(?<=[.!?)\]])\s*|^[ \t]*)"
_COPYRIGHT_SIGN = r"(?:©|\([cC]\)|&copy;)"
_YEARS = r"(?:19|20)\d\d(?:\s*[-\u2013,]\s*(?:19|20)?\d\d)*"
# To the end of the line if that is near, else of the sentence: names of firms have points, too.
_OWNER = r"(?:[^\n]{0,250}$|[^\n]{0,200}?(?<=[a-z]{4}\.)(?=\s+[A-ZÀ-Þ]))"
_RESERVED = r"""(?:All\ rights\ (?:are\ )?reserved|Tutti\ i\ diritti\ (?:sono\ )?riservati
    |Todos\ los\ derechos\ reservados|Tous\ droits\ réservés|Alle\ Rechte\ vorbehalten)\.?"""
_PATTERNS = {
    # As in PubMed's CopyrightInformation: "Copyright © 2011 Elsevier Ltd. All rights reserved."
    "copyright": (("opyright", "OPYRIGHT", "©", "(c)", "(C)", "ights reserved", "diritti riservati",
                   "erechos reservados", "roits réservés", "echte vorbehalten"), rf"""
        {_BEGIN}(?:(?:Copyright|COPYRIGHT)\s*(?:{_COPYRIGHT_SIGN}\s*)?(?:by\s+)?{_YEARS}
                  |{_COPYRIGHT_SIGN}\s*(?:Copyright\s*)?{_YEARS}[.,]?\s+(?:by\s+)?(?=[A-ZÀ-Þ])
                  |Copyright\s*{_COPYRIGHT_SIGN}
                  |©\s+(?:The\s+)?Author)
        {_OWNER}
        |{_BEGIN}{_RESERVED}"""),
    "publisher": (("ublished by", "ublished on behalf", "protected by copyright", "or permission",
                   "or reprints", "upplementary", "open access article", "open-access article",
                   "article distributed under", "his article is"), rf"""
        {_BEGIN}(?:Published\ (?:by|on\ behalf\ of)\ [A-Z][^\n.]{{0,80}}
                   (?:Inc|Ltd|LLC|GmbH|B\.?V|S\.?A|Press|Elsevier|Wiley|Springer|Society|Group
                     |Foundation|Kluwer|Karger|Sons|Francis|Publishers?)\b\.?(?=\s|$)
        |This\ article\ is\ protected\ by\ copyright\.?
        |This\ is\ an\ [Oo]pen[\ -][Aa]ccess\ article\ [^\n]{{0,300}}?
            (?:properly\ cited|original\ work\ is\ (?:properly\ )?cited|[Ll]icen[cs]e)[^\n.]{{0,80}}
            (?:\.(?=\s|$)|$)
        |For\ (?:permissions?|reprints)\b[^\n]{{0,40}}?(?:please\ )?(?:e-?mail|contact|visit|see)\b
            [^\n]{{0,100}}?(?:\.(?=\s|$)|$)
        |Supplementary\ (?:data|material|information)\ (?:is|are)\ available
            \ (?:at|online|for\ this)\b[^\n]{{0,120}}?(?:\.(?=\s|$)|$))"""),
}
# Whole lines: C4's (Raffel et al. 2020, section 2.2: JavaScript, policies) and menus.
_NAVIGATION = re.compile(r"""
    ^[ \t]*(?:
          [^\n]{0,150}\b[Jj]ava[Ss]cript\b[^\n]{0,150}
          |[^\n]{0,100}\b(?:[Pp]rivacy\ [Pp]olicy|[Tt]erms\ of\ (?:[Uu]se|[Ss]ervice)
              |(?:uses?|[Uu]sa|utilizza|utiliza|utilise|verwendet|accept|accetta|[Aa]ceptar?)
               \ (?:(?:all|tutti|i|las?|los|des|les|our|di)\ ){0,2}[Cc]ookies?
              |[Cc]ookie\ (?:policy|settings|preferences)|[Pp]olitica\ (?:dei|sui|de)\ [Cc]ookies?)
              \b[^\n]{0,100}
          |(?:[Ss]kip\ to\ (?:main\ )?(?:content|navigation)|[Vv]ai\ al\ contenuto|[Bb]ack\ to\ top
             |[Tt]orna\ (?:su|all['\u2019]inizio|indietro)|[Ll]eggi\ (?:tutto|di\ più)
             |[Rr]ead\ more|[Cc]lick\ here|[Cc]licca\ qui|[Ll]eer\ más|[Ll]ire\ la\ suite
             |[Ll]og\ ?in|[Ss]ign\ (?:in|up)|[Aa]ccedi
             |[Ss]ubscribe(?:\ (?:now|to\ [^\n]{1,30}))?
             |[Ii]scriviti\ alla\ newsletter|[Mm]enu|[Hh]ome(?:\ ?page)?|[Ss]earch
             |(?:[Ss]tampa|[Pp]rint)(?:\ (?:questa|this)\ (?:pagina|page))?
             |(?:[Ss]hare|[Tt]weet|[Cc]ondividi|[Cc]ompartir|[Pp]artager)
              (?:\ (?:on|this|su|en|sur)\b[^\n]{0,40})?
             |(?:[Nn]ext|[Pp]revious)\ (?:page|article|post))
             [ \t]*[.…»>]{0,3}
          |[Hh]ome\ ?(?:[>»\u203a/|]\ ?[^>»\u203a/|\n]{1,60}){1,8}
          |(?:[^\n|]{1,25}\ \|\ ){3,}[^\n|]{1,25}
    )[ \t]*$""", re.VERBOSE | re.MULTILINE)
_LONGEST_LINE = 200
NAMES = (*_PATTERNS, "navigation")
_COMPILED = {name: (words, re.compile(pattern, re.VERBOSE | re.MULTILINE))
             for name, (words, pattern) in _PATTERNS.items()}


def remover(name: str) -> Callable[[EditedText], None]:
    """Return the function that removes one kind of boilerplate."""
    if name == "navigation":
        return _remove_navigation
    words, pattern = _COMPILED[name]

    def remove(edited: EditedText) -> None:
        if any(map(edited.text.__contains__, words)):
            edited.substitute(name, pattern, "")

    return remove


def _remove_navigation(edited: EditedText) -> None:
    if "\n" in edited.text and any(len(line) <= _LONGEST_LINE and _NAVIGATION.match(line)
                                   for line in edited.text.split("\n")):
        edited.substitute("navigation", _NAVIGATION, "")
