"""Record streams, and files and directories that appear only when they are complete."""
