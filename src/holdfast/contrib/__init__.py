"""Integrations with other libraries. Each module needs the packages of its extra, and is imported only on request."""
