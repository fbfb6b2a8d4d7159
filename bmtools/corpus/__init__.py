"""Readers of source formats, sentence segmentation and packing into rows."""
