"""What programs are shown: typed JSON, the same from the command line and over HTTP. The names are a promise."""
