"""Each licence has one name."""

from __future__ import annotations

import pytest

from bmtools.io.provenance.licence_names import licence_name, licence_parts, normal_name
from bmtools.io.provenance.licences import obligations


@pytest.mark.parametrize(("stated", "name"), [
    ("http://creativecommons.org/licenses/by/2.0", "CC-BY-2.0"),
    ("https://creativecommons.org/licenses/by-nc-nd/4.0/deed.en", "CC-BY-NC-ND-4.0"),
    ("https://creativecommons.org/licences/by-sa/3.0/igo/", "CC-BY-SA-3.0"),
    ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
    ("http://creativecommons.org/publicdomain/mark/1.0/", "CC-PDM-1.0"),
    ("http://creativecommons.org/licenses/publicdomain/", "public-domain"),
    ("CC BY", "CC-BY"), ("cc-by-nc 4.0", "CC-BY-NC-4.0"), ("CC_BY_SA", "CC-BY-SA"),
    ("CCBYNCND", "CC-BY-NC-ND"), ("CC0", "CC0-1.0"), ("CC BY v4.0", "CC-BY-4.0"),
    ("under the terms of the Creative Commons Attribution License, which permits", "CC-BY"),
    ("the Creative Commons Attribution 4.0 International License", "CC-BY-4.0"),
    ("Creative Commons Attribution-NonCommercial-ShareAlike 3.0 Unported", "CC-BY-NC-SA-3.0"),
    ("Creative Commons Attribution Non Commercial (CC BY-NC 4.0) license", "CC-BY-NC-4.0"),
    ("Creative Commons\n Attribution Non-Commercial No Derivatives licence", "CC-BY-NC-ND"),
    ("Creative Commons Attribution License (CC BY)", "CC-BY"),
    ("cc_by_nc_4.0", "CC-BY-NC-4.0"), ("CCBY4.0", "CC-BY-4.0"), ("CC BY 4", "CC-BY-4.0"),
    ("CC BY v. 4.0", "CC-BY-4.0"), ("CC BY 2023", "CC-BY"), ("CC-BY-SA-NC-4.0", "CC-BY-NC-SA-4.0"),
    ("CC BY-ND-NC 3.0", "CC-BY-NC-ND-3.0"), ("CC BY license (CC BY 4.0)", "CC-BY-4.0"),
    ("CC BY 4.0 or CC BY-NC 4.0", "CC-BY-4.0"),
    ("Creative Commons Attribution License. The Creative Commons Public Domain Dedication waiver "
     "(CC0) applies to the data", "CC-BY"),
    ("This work is in the public domain.", "public-domain"),
    ("All rights reserved.", ""), ("open-access", ""), ("the accB-yield", "")])
def test_names(stated: str, name: str) -> None:
    assert licence_name(stated) == name


def test_the_most_precise_statement_counts() -> None:
    assert licence_name("", "http://creativecommons.org/licenses/by/4.0/", "CC BY") == "CC-BY-4.0"


@pytest.mark.parametrize(("stated", "names"), [
    ("CC BY 4.0; CC BY-NC 4.0", ["CC-BY-4.0", "CC-BY-NC-4.0"]),
    ("MIT AND CC-BY-4.0 and CC-BY-SA-4.0", ["MIT", "CC-BY-4.0", "CC-BY-SA-4.0"])])
def test_all_licences_named_in_a_statement_apply(stated: str, names: list[str]) -> None:
    assert licence_parts(stated) == names


@pytest.mark.parametrize(("stated", "names"), [
    ("cc-by-nc-4.0, mit", ["CC-BY-NC-4.0", "MIT"]), ("mit; apache-2.0", ["MIT", "Apache-2.0"]),
    ("Apache License, Version 2.0 and CC BY 4.0", ["Apache-2.0", "CC-BY-4.0"]),
    ("Apache License, Version 2.0", ["Apache-2.0"]), ("epl-2.0", ["EPL-2.0"]),
    ("cdla-sharing-1.0", ["CDLA-Sharing-1.0"]), ("gpl-2.0+ with classpath-exception-2.0",
                                                 ["GPL-2.0+ WITH Classpath-exception-2.0"]),
    ("CC BY-SA 3.0 IT", ["CC-BY-SA-3.0"]), ("CC0 1.0 Universal", ["CC0-1.0"]),
    ("This work is licensed under a Creative Commons Attribution 4.0 International License.",
     ["CC-BY-4.0"]),
    ("CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)", ["CC-BY-4.0"]),
    ("CC BY 4.0 or CC BY-NC 4.0", ["CC-BY-4.0"])])
def test_a_statement_of_only_names_returns_all_names(stated: str, names: list[str]) -> None:
    assert licence_parts(stated) == names


@pytest.mark.parametrize("stated", [
    "Not in the public domain; all rights reserved", "Proprietary. Figures are CC BY 4.0",
    "not CC BY 4.0", "CC BY 4.0, figures excluded", "No longer under CC BY-NC 4.0",
    "CC BY-NC 4.0; commercial use on request", "MIT-style", "mit, see LICENSE"])
def test_free_text_with_more_than_names_is_unchanged(stated: str) -> None:
    assert normal_name(stated) == stated
    assert licence_parts(stated) == [stated]
    assert "attribution" not in obligations(stated) and "own-terms" in obligations(stated)


@pytest.mark.parametrize(("stated", "name"), [
    ("This article is not in the public domain.", ""),
    ("The data are not under a Creative Commons Attribution licence.", ""),
    ("Not under CC BY; the text is CC BY-NC 4.0", "CC-BY-NC-4.0"),
    ("Open access under CC BY 4.0, if not indicated otherwise in the public domain", "CC-BY-4.0"),
    ("It is available at no cost under CC BY 4.0", "CC-BY-4.0")])
def test_a_licence_in_a_negation_is_ignored(stated: str, name: str) -> None:
    assert licence_name(stated) == name
