"""Tenants that nobody knows, and what a tenant's view does not reach."""

from __future__ import annotations

from .root import InvalidInput


class UnknownTenant(InvalidInput):
    """The app knows its tenants, and this is none of them."""

    code = "unknown_tenant"

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(f"there is no tenant {tenant!r}; App(tenants=…) says which there are")


class BeyondScope(InvalidInput):
    """What is asked for belongs to the whole store, and this view shows one tenant's part of it."""

    code = "beyond_scope"

    def __init__(self, what: str, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(f"not available to users of tenant {tenant!r}: {what}")
