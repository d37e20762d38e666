"""Import a package's public names on first use."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazily(
    package: str, names: Mapping[str, Collection[str]], modules: Collection[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package with these names, by submodule, and these modules."""
    homes = {name: module for module, found in names.items() for name in found}

    def get(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        # Stored, so that `__getattr__` is not called for it again.
        found = import_module(package).__dict__[name] = getattr(import_module(f"{package}.{homes[name]}"), name)
        return found

    return get, lambda: sorted([*homes, *modules])
