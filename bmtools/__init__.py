"""Composable commands that build biomedical language models."""

__version__ = "0.1.0"
