"""Duplicates, near duplicates and evaluation texts in corpora, found by hashes of words."""
