"""Annotated sets, a format each."""
