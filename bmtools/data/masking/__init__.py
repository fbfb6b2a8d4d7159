"""Masking: strategies, whole words, spans, terms and corruption."""
