"""Descriptions of corpora: sizes, lengths, origins, topics, words by frequency, annotations."""
