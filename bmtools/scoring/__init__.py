"""Pseudo-perplexity, mean reciprocal rank and the signatures of scores."""
