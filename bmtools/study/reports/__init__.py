"""Plots, pages and tables of results."""
