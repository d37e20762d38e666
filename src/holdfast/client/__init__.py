"""The clients of an app, one file for each noun: enqueue jobs, wait for them, look at them, act on them."""
