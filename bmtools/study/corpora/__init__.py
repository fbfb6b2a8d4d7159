"""Descriptions of corpora and sets: sizes, lengths, words, topics and labels."""
