"""Settings are frozen dataclasses whose fields hold their defaults and help."""

from __future__ import annotations

from dataclasses import fields

from bmtools.settings import Settings, option


class Paint(Settings, title="Paint"):
    layers: int = option(2, "Coats.")
    color: str = option("red", "Hue.", metavar="NAME")


class Varnish(Paint, title="Varnish"):
    layers: int = option(1, "Coats, thin ones.")


def test_a_field_holds_its_default_help_and_metavar() -> None:
    assert [(field.name, field.default, *field.metadata.values()) for field in fields(Paint)] == [
        ("layers", 2, "Coats.", None), ("color", "red", "Hue.", "NAME")]


def test_a_field_described_again_keeps_its_place() -> None:
    assert [(field.name, field.metadata["help"]) for field in fields(Varnish)] == [
        ("layers", "Coats, thin ones."), ("color", "Hue.")]
    assert (Paint.title, Varnish.title) == ("Paint", "Varnish")
