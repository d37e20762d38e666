"""A studio at work, with everything that the dashboard shows: `python -m examples.studio`."""
