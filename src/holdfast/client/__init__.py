"""The clients of an app, one file for each noun: enqueue jobs, wait for them, read them, act on them."""
