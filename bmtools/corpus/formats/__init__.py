"""Readers and writers of source formats."""
