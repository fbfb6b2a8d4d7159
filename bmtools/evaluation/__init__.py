"""Metrics of annotations and answers: of tasks while they train, and of `score-tasks`.

Functions take plain values; nothing here imports torch or a task.
"""
