"""Opening an app's store, and running its jobs: embedded, in processes of their own, or until nothing is left."""
