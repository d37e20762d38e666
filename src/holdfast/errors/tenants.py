"""Unknown tenants, and actions that a tenant's view does not allow."""

from __future__ import annotations

from .root import InvalidInput


class UnknownTenant(InvalidInput):
    """The tenant is not one of those that `App(tenants=…)` names."""

    code = "unknown_tenant"

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(f"there is no tenant {tenant!r}; App(tenants=…) says which there are")


class BeyondScope(InvalidInput):
    """The action needs the whole store, and this view is limited to one tenant."""

    code = "beyond_scope"

    def __init__(self, what: str, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(f"not available to users of tenant {tenant!r}: {what}")
