"""Annotated sets in the formats of the field: readers of all, writers of some."""
