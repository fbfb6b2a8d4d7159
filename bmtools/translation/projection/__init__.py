"""Projection of annotations from texts to their translations."""
