"""One thin click module per subcommand."""
