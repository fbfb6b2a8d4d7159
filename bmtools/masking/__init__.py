"""Masking: strategies, whole words, corruption."""
