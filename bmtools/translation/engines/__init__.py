"""Engines that translate sentences."""
