"""The JSON that programs get, typed, the same from the command line and over HTTP. The names are a promise."""
