"""Texts in the formats of the field, as records."""
