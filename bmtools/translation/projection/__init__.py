"""Annotations carried from texts to their translations."""
