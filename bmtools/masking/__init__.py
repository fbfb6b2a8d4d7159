"""Masking: strategies, whole words, corruption, coverage."""
