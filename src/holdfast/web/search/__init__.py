"""The search line of the jobs: what people write, what it means, and finding it at a bounded price."""
