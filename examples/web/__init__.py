"""Holdfast in web frameworks: the same small shop in each of them."""
