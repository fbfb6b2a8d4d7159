"""Plots and pages of what the commands compute."""
