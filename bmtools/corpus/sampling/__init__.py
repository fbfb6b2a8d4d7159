"""Samples of corpora, ladders of samples of which each contains the smaller, and mixtures."""
