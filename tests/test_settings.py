"""Settings are frozen dataclasses whose fields contain their defaults and help."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from bmtools.settings import Settings, option, split_settings


class Paint(Settings, title="Paint"):
    layers: int = option(2, "Coats.")
    color: str = option("red", "Hue.", metavar="NAME")
    water: float | None = option(None, "Share of water.", below=1)
    gloss: float = option(0.5, "Share of light thrown back.", above=0, most=1)
    grains: int = option(80, "Grain of the paper.", least=40, most=2000)


class Varnish(Paint, title="Varnish"):
    layers: int = option(1, "Coats, thin ones.")


def test_a_field_has_its_default_help_metavar_and_bounds() -> None:
    found = [(field.name, field.default, *field.metadata.values()) for field in fields(Paint)]
    assert found[:3] == [("layers", 2, "Coats.", None, {}), ("color", "red", "Hue.", "NAME", {}),
                         ("water", None, "Share of water.", None, {"below": 1})]


@pytest.mark.parametrize(("setting", "expected"), [
    ({"layers": -1}, "layers: found -1, expected 0 or more"),
    ({"water": 1.0}, "water: found 1.0, expected 0 to below 1"),
    ({"gloss": 0}, "gloss: found 0, expected above 0, at most 1"),
    ({"grains": 39}, "grains: found 39, expected 40 to 2000")])
def test_numbers_out_of_bounds_are_rejected(setting: dict[str, float], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        Paint(**setting)  # type: ignore[arg-type]
    assert Paint(layers=0, gloss=1, grains=40).water is None


@pytest.mark.parametrize(("setting", "expected"), [
    ({"layers": 1.7}, "layers: found 1.7, expected a whole number"),
    ({"layers": True}, "layers: found True, expected a whole number"),
    ({"layers": "2"}, "layers: found '2', expected a whole number"),
    ({"water": "x"}, "water: found 'x', expected a number"),
    ({"gloss": None}, "gloss: found None, expected a number"),
    ({"color": 3}, "color: found 3, expected text"),
    ({"hue": 3}, "found hue, expected some of color, gloss, grains, layers, water")])
def test_values_of_another_type_are_rejected(setting: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        split_settings(setting, Paint)
    [paint] = split_settings({"layers": np.int64(3), "gloss": np.float32(0.5)}, Paint)
    assert paint.layers == 3


def test_a_field_described_again_keeps_its_place() -> None:
    assert [(field.name, field.metadata["help"]) for field in fields(Varnish)][:2] == [
        ("layers", "Coats, thin ones."), ("color", "Hue.")]
    assert (Paint.title, Varnish.title) == ("Paint", "Varnish")
