"""Licences: their conditions, the licence of a combined work, and conflicts."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest

from bmtools.io.provenance.licence_names import normal_name
from bmtools.io.provenance.licences import (
    combine,
    conflicts,
    licence_record,
    missing_from,
    obligations,
)

CC = ("CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0")
# Creative Commons' chart of licences whose works may be remixed, without the ND licences.
REMIXED = {("CC-BY-4.0", "CC-BY-SA-4.0"), ("CC-BY-4.0", "CC-BY-NC-4.0"),
           ("CC-BY-4.0", "CC-BY-NC-SA-4.0"), ("CC-BY-NC-4.0", "CC-BY-NC-SA-4.0")}


@pytest.mark.parametrize(("stated", "name"), [
    ("cc-by-nc-4.0", "CC-BY-NC-4.0"), ("apache-2.0", "Apache-2.0"), ("mit", "MIT"),
    ("Apache License, Version 2.0", "Apache-2.0"), ("The MIT License", "MIT"),
    ("GNU GPL v3", "GPL-3.0"), ("GPLv2+", "GPL-2.0-or-later"), ("lgpl-2.1-only", "LGPL-2.1-only"),
    ("lgpl", "LGPL"),
    ("GNU General Public License v3.0", "GPL-3.0"),
    ("GNU Lesser General Public License v2.1 or later", "LGPL-2.1-or-later"),
    ("GNU Affero General Public License, version 3", "AGPL-3.0"),
    ("bsd-3-clause", "BSD-3-Clause"), ("odbl", "ODbL"), ("CC0", "CC0-1.0"),
    ("CC BY-SA 3.0 IGO", "CC-BY-SA-3.0"), ("other", "other"), ("gemma", "gemma"),
    ("NLM and  publishers", "NLM and publishers"), ("transmit", "transmit")])
def test_names(stated: str, name: str) -> None:
    assert normal_name(stated) == name
    assert normal_name(name) == name


@pytest.mark.parametrize(("licence", "expected"), [
    ("CC0-1.0", set()), ("public domain", set()), ("PDDL-1.0", set()), ("MIT", {"attribution"}),
    ("CC-BY-NC-SA-4.0", {"attribution", "non-commercial", "share-alike"}),
    ("CC-BY-ND-3.0", {"attribution", "no-derivatives"}),
    ("LGPL-2.1", {"attribution", "share-alike"}), ("", {"unknown"}), ("unknown", {"unknown"}),
    ("NLM and publishers", {"own-terms"}), ("gemma", {"own-terms", "limited-uses"}),
    ("PhysioNet Credentialed Health Data License 1.5.0", {"own-terms", "research-only"}),
    ("DeepL, non-commercial", {"own-terms", "non-commercial"}),
    ("CC-BY-4.0 AND gemma", {"attribution", "own-terms", "limited-uses"})])
def test_obligations(licence: str, expected: set[str]) -> None:
    assert obligations(licence) == expected


@pytest.mark.parametrize(("licences", "result"), [
    (("CC-BY-4.0", "cc-by-nc-4.0"), "CC-BY-NC-4.0"), (("CC0", "MIT"), "MIT"),
    (("CC0", "public domain"), "CC0-1.0 AND public-domain"), (("", ""), ""),
    (("CC-BY-3.0", "CC-BY-NC-4.0"), "CC-BY-3.0 AND CC-BY-NC-4.0"),  # versions differ
    (("CC-BY", "CC-BY-NC"), "CC-BY AND CC-BY-NC"),  # the version is unknown
    (("CC-BY-NC-SA-4.0", "CC-BY-NC-4.0", "CC-BY-4.0"), "CC-BY-NC-SA-4.0"),
    (("CC-BY-SA-4.0", "CC-BY-NC-SA-4.0"), "CC-BY-SA-4.0 AND CC-BY-NC-SA-4.0"),
    (("CC-BY-4.0", "unknown"), "CC-BY-4.0 AND unknown"), (("unknown",), ""),
    (("MIT AND CC-BY-4.0", "mit"), "MIT AND CC-BY-4.0"), (("a", "b AND a"), "a AND b")])
def test_the_licence_of_a_combined_work(licences: tuple[str, ...], result: str) -> None:
    assert combine(*licences) == result
    assert combine(combine(*licences)) == result


def test_dropped_licences_lose_no_condition() -> None:
    every = ("CC0-1.0", *CC, "CC-BY-ND-4.0", "CC-BY-NC-ND-4.0", "CC-BY-3.0", "CC-BY", "MIT", "LGPL",
             "gemma", "unknown")
    for some in (*combinations(every, 2), *combinations(every, 3)):
        bound = frozenset().union(*map(obligations, some))
        assert obligations(combine(*some)) == bound
        assert {share for share in some if "SA" in share} <= set(combine(*some).split(" AND "))


@pytest.mark.parametrize(("first", "second"), [*combinations(CC, 2)])
def test_creative_commons_chart(first: str, second: str) -> None:
    assert bool(conflicts([first, second])) == ((first, second) not in REMIXED)


@pytest.mark.parametrize(("first", "second", "agree"), [
    # gnu.org, "Various licenses": only GPL-2.0; GPL-3.0, Apache-2.0, LGPL, MPL-2.0, AGPL-3.0.
    ("GPL-2.0-only", "GPL-3.0-only", False), ("GPL-2.0-or-later", "GPL-3.0-only", True),
    ("GPL-2.0", "Apache-2.0", False), ("GPL-3.0", "Apache-2.0", True),
    ("LGPL-2.1", "GPL-2.0", True), ("LGPL-3.0", "GPL-2.0-only", False),
    ("MPL-2.0", "GPL-2.0", True),
    ("AGPL-3.0", "GPL-3.0", True), ("AGPL-3.0", "GPL-2.0-only", False),
    # creativecommons.org/compatiblelicenses: BY-SA 4.0 to GPL-3.0. 1.0 has no later versions.
    ("CC-BY-SA-4.0", "GPL-3.0", True), ("CC-BY-SA-4.0", "GPL-2.0-only", False),
    ("CC-BY-SA-3.0", "CC-BY-SA-4.0", True), ("CC-BY-SA-1.0", "CC-BY-SA-4.0", False),
    ("CC-BY-SA", "CC-BY-SA-4.0", True), ("CC-BY-NC-4.0", "GPL-3.0", False),
    ("CC-BY-SA-4.0", "gemma", False), ("CC-BY-SA-4.0", "NLM and publishers", True),
    ("CC-BY-SA-4.0", "unknown", True), ("ODbL-1.0", "CC-BY-SA-4.0", False),
    ("ODbL-1.0", "odbl", True), ("CC-BY-4.0", "ODbL-1.0", True), ("CC-BY-NC-4.0", "gemma", True),
    ("CC-BY-SA-4.0", "CC-BY-ND-4.0", False), ("GFDL-1.2", "GFDL-1.3", True),
    ("EUPL-1.2", "CC-BY-NC-4.0", False), ("EUPL-1.2", "GPL-3.0", True),
    ("EUPL-1.2", "EPL-1.0", True),
    ("CDLA-Sharing-1.0", "CC-BY-NC-4.0", False), ("CDLA-Sharing-1.0", "CC-BY-4.0", True),
    ("EPL-2.0", "GPL-3.0", False), ("EPL-1.0", "EPL-2.0", True), ("MIT", "EPL-2.0", True),
    ("BSD-4-Clause", "GPL-3.0", False), ("BSD-4-Clause", "GPL-2.0", False),
    ("BSD-4-Clause", "MPL-2.0", True), ("BSD-3-Clause", "GPL-3.0", True),
    ("Apache-1.1", "GPL-3.0", False), ("proprietary", "CC-BY-SA-4.0", False),
    ("proprietary", "CC-BY-4.0", True), ("No figures; all rights reserved", "GPL-3.0", False)])
def test_other_pairs(first: str, second: str, agree: bool) -> None:
    found = conflicts([first, second])
    assert (not found) == agree
    assert bool(conflicts([second, first])) == bool(found)
    for one in found:
        assert all(name in one.reason for name in (one.first, one.second))


def test_free_and_permissive_licences_never_conflict() -> None:
    every = (*CC, "CC-BY-ND-4.0", "GPL-2.0", "GPL-3.0", "LGPL", "ODbL-1.0", "gemma", "other")
    free_ones = ("CC0-1.0", "CC-BY-4.0", "MIT", "BSD-3-Clause", "public-domain")
    for free, other in product(free_ones, every):
        assert not conflicts([free, other])


def test_parts_of_joined_licences_can_conflict() -> None:
    [found] = conflicts(["MIT AND CC-BY-SA-4.0", "CC-BY-NC-4.0"])
    assert (found.first, found.second) == ("CC-BY-SA-4.0", "CC-BY-NC-4.0")
    assert found.reason == ("adaptations of CC-BY-SA-4.0 material must be shared under "
                            "CC-BY-SA-4.0, and CC-BY-NC-4.0 is for non-commercial use only")


@pytest.mark.parametrize(("declared", "licences", "missing"), [
    ("MIT", ["CC-BY-NC-4.0", "CC0-1.0"], {"CC-BY-NC-4.0": ["non-commercial"]}),
    ("CC-BY-4.0", ["CC-BY-SA-4.0", "gemma"],
     {"CC-BY-SA-4.0": ["share-alike"], "gemma": ["limited-uses"]}),
    ("CC-BY-NC-4.0", ["CC-BY-4.0", "MIT", "unknown", "other"], {}),
    ("CC-BY-NC-SA-4.0 AND gemma", ["CC-BY-NC-4.0", "gemma"], {})])
def test_declared_licences(declared: str, licences: list[str],
                           missing: dict[str, list[str]]) -> None:
    assert missing_from(declared, licences) == missing


def test_records() -> None:
    assert licence_record({"text": ["CC BY 4.0", ""], "base": []}) == {
        "licences": {"text": ["CC-BY-4.0", "unknown"], "base": ["unknown"]},
        "licence": "CC-BY-4.0 AND unknown"}
    assert licence_record({"text": [""]}) == {"licences": {"text": ["unknown"]}}
    assert licence_record({}) == {}


def test_the_documentation_has_the_table_of_pairs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "licences.md").read_text()
    table = text.partition("| licence | conflicts with |\n| --- | --- |\n")[2].partition("\n\n")[0]
    rows = dict(row.strip("| ").split(" | ") for row in table.splitlines())
    assert len(rows) == 20
    for name, others in rows.items():
        assert others == (", ".join(one for one in rows if conflicts([name, one])) or "-")
