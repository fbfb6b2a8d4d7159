"""The command line: main program, shared options, launching, progress and tables."""
