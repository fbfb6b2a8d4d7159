"""Settings are frozen dataclasses whose fields hold their defaults and help."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from bmtools.settings import Settings, option


class Paint(Settings, title="Paint"):
    layers: int = option(2, "Coats.")
    color: str = option("red", "Hue.", metavar="NAME")


class Varnish(Paint, title="Varnish"):
    layers: int = option(1, "Coats, thin ones.")


def test_settings_are_frozen_dataclasses() -> None:
    paint = Paint(color="green")
    assert paint == Paint(2, "green") == replace(Paint(2), color="green")
    with pytest.raises(FrozenInstanceError):
        paint.layers = 3  # type: ignore[misc]


def test_a_field_holds_its_default_help_and_metavar() -> None:
    assert [(field.name, field.default, *field.metadata.values()) for field in fields(Paint)] == [
        ("layers", 2, "Coats.", None), ("color", "red", "Hue.", "NAME")]


def test_a_field_described_again_keeps_its_place() -> None:
    assert [(field.name, field.metadata["help"]) for field in fields(Varnish)] == [
        ("layers", "Coats, thin ones."), ("color", "Hue.")]
    assert (Paint.title, Varnish.title) == ("Paint", "Varnish")


def test_settings_need_a_title() -> None:
    with pytest.raises(TypeError, match="title"):
        type("Untitled", (Settings,), {})
