"""Learning, reading and comparing vocabularies."""
