"""Readers of source formats, sentences, cleaning, duplicates and languages."""
