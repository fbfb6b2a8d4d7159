"""Initial weights from another model: embeddings for a new vocabulary, growth, decoders."""
