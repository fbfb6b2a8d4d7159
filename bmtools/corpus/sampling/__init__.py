"""Samples of corpora, ladders of nested samples, and mixtures."""
