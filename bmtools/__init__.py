"""Composable commands that build biomedical language models."""
