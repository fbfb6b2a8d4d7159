"""The score of completeness, against cases worked out by hand from OWASP's weights."""

from __future__ import annotations

from typing import Any

from aibom import FIELDS, completeness, missing_fields


def test_an_empty_bill_has_nothing() -> None:
    assert completeness({"components": [{}]}) == 0
    assert len(missing_fields({"components": [{}]})) == sum(map(len, FIELDS.values())) == 37


def test_fields_count_within_their_category() -> None:
    bom: dict[str, Any] = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": "urn:uuid:0", "version": 1,
        "metadata": {"properties": [{"name": "primaryPurpose", "value": "fill-mask"},
                                    {"name": "suppliedBy", "value": "a group"}]},
        "components": [{"name": "a", "type": "machine-learning-model", "version": "1",
                        "externalReferences": [{"type": "website", "url": "https://a.org"}]}]}
    # 20 + 20 * 2/5 + 20 * 3/7 + 0 + 10 * 2/4, and 0.95 for five or more important ones missing
    assert completeness(bom) == round((20 + 8 + 8.6 + 5) * 0.95, 1)
    del bom["specVersion"], bom["bomFormat"]
    assert completeness(bom) == round((10 + 8 + 8.6 + 5) * 0.9 * 0.95, 1)
