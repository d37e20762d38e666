"""The two stores. Nothing above this package knows which database runs."""
