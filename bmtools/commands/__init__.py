"""One short click module for each subcommand."""
