"""Concurrency, rates, quotas, breakers, fair shares and totals."""
