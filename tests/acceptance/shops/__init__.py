"""Web programs that enqueue in their own transactions, each as a reader of the documentation would write it."""
