"""Record streams and whole-or-nothing files and directories."""
