"""Initial weights taken from another model: embeddings of a new vocabulary, growth, decoders."""
