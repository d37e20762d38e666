"""The command line: `holdfast`. One module per group of commands."""
