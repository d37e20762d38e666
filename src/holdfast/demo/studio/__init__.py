"""`holdfast demo --serve`: a small studio at work, with its dashboard, for a newcomer to click through."""
