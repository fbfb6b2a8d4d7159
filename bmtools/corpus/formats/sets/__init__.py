"""Annotated sets, one module per format."""
