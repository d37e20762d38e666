"""A database backend that says that it is MySQL: the real one needs a driver."""

from django.db.backends.dummy.base import DatabaseWrapper as Dummy


class DatabaseWrapper(Dummy):
    vendor = "mysql"
    display_name = "MySQL"

    def close(self) -> None:
        """Close nothing."""
