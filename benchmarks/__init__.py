"""How fast Holdfast is, beside bare loops on the same schema in the same run. `python -m benchmarks` runs it all."""
