"""`holdfast demo`: 2,000 jobs, a worker that is killed, and an account of every one of them."""
