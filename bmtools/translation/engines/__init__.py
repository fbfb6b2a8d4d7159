"""Engines that turn sentences into sentences."""
