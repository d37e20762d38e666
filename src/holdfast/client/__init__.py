"""What a program asks of its jobs: enqueue them, wait for them, look at them, act on them."""
