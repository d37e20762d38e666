"""The documentation site, made by Sphinx from the pages of this repository: `python -m tools.website`."""
