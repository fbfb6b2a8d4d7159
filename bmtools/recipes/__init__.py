"""Pretraining settings of papers, with one phases file for each."""
