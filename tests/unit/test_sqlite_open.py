"""Where a SQLite store may live, how its file is opened, and which schema it accepts."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from holdfast.errors import ConfigError, SchemaMismatch, StorageReadOnly, StorageUnavailable
from holdfast.storage import migrate
from holdfast.storage.port import Op, Tx
from holdfast.storage.sqlite import SqliteStore
from holdfast.storage.sqlite.location import filesystem_of, is_network, locate
from holdfast.storage.sqlite.schema import statements
from holdfast.storage.statements import Statement
from tests.patience import SOON
from tests.unit.sqlite_kit import TEXTS, add, prepare

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /srv/shared rw,relatime shared:1 - nfs4 server:/export rw
31 30 0:41 / /srv/shared/local rw,relatime - xfs /dev/vdb rw
32 27 0:42 / /mnt/with\\040space rw,relatime - fuse.sshfs host: rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/jobs.db", "ext4"),
        ("/srv/shared/jobs.db", "nfs4"),
        ("/srv/shared/local/jobs.db", "xfs"),
        ("/srv/sharedness/jobs.db", "ext4"),
        ("/mnt/with space/jobs.db", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_path_is_its_innermost_mount(path: str, kind: str) -> None:
    assert filesystem_of(path, MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.gcsfuse", "vboxsf"])
def test_network_file_systems_are_recognised(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuse.fuse-overlayfs", ""])
def test_local_file_systems_are_accepted(kind: str) -> None:
    assert not is_network(kind)


def test_a_file_on_a_network_file_system_is_refused_unless_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.storage.sqlite.location.filesystem_of", lambda path, text: "nfs4")
    with pytest.raises(ConfigError, match="nfs4"):
        SqliteStore(tmp_path / "jobs.db").read(TEXTS)
    assert not (tmp_path / "jobs.db").exists()
    store = prepare(SqliteStore(tmp_path / "jobs.db", allow_unsafe_fs=True))
    store.close()


def test_a_new_file_is_readable_for_its_owner_only_and_uses_wal(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = prepare(SqliteStore(path))
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-notify"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    facts = store.describe()
    assert (facts["journal_mode"], facts["synchronous"], facts["path"]) == ("wal", "full", str(path))
    assert facts["sqlite_version"] == sqlite3.sqlite_version
    assert facts["wal_reset_bug"]
    assert isinstance(facts["wal_bytes"], int) and facts["wal_bytes"] > 0
    store.close()


def test_a_store_that_is_not_durable_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", durable=False)
    assert store.describe()["synchronous"] == "normal"
    store.close()


def test_nothing_is_opened_before_first_use(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "jobs.db").close()
    assert list(tmp_path.iterdir()) == []


def test_urls_and_uris_name_the_same_file_as_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = os.path.realpath(tmp_path / "my jobs.db")
    for where in (
        "my jobs.db",
        "sqlite:///my jobs.db",
        "sqlite:///my%20jobs.db",
        f"sqlite:///{path}",
        "file:my%20jobs.db",
        f"file:{path}?mode=rwc",
        f"file://{path}",
        f"file://localhost{path}",
        tmp_path / "my jobs.db",
    ):
        assert locate(where).path == path


@pytest.mark.parametrize(
    "where",
    [
        ":memory:",
        "sqlite://",
        "sqlite:///:memory:",
        "file::memory:",
        "file::memory:?cache=shared",
        "file:opened?mode=memory",
        "file:opened2?mode=memory&cache=shared#fragment",
        "file:opened3?cache=shared&mode=memory",
        "file:/opened4?vfs=memdb",
    ],
)
def test_every_form_of_a_database_in_memory_keeps_what_is_written(where: str, tmp_path: Path) -> None:
    assert locate(where).memory
    store = prepare(SqliteStore(where))
    store.write(add("kept"))
    assert store.read(TEXTS) == ["kept"]
    assert list(tmp_path.iterdir()) == []
    store.close()


def test_a_file_may_be_called_mode_memory(tmp_path: Path) -> None:
    location = locate(f"file:{tmp_path}/mode=memory.db")
    assert location.path == os.path.realpath(tmp_path / "mode=memory.db")
    with pytest.raises(ConfigError):
        locate(f"file:{tmp_path}/jobs.db?xmode=memory")


def test_two_stores_in_memory_are_two_databases() -> None:
    one, two = prepare(SqliteStore(":memory:")), prepare(SqliteStore(":memory:"))
    one.write(add("mine"))
    assert two.read(TEXTS) == []
    one.close()
    two.close()


@pytest.mark.parametrize(
    "where",
    [
        "", " ", "\t\n", "sqlite:jobs.db", "sqlite://host/jobs.db", "sqlite:///", "sqlite:///%20", "sqlite:///jobs.db?mode=ro",
        "sqlite:///jobs.db#part", "a\0b", "file:x?vfs=unix-none",
    ],
)  # fmt: skip
def test_a_malformed_address_is_refused(where: str) -> None:
    with pytest.raises(ConfigError):
        SqliteStore(where)


def test_a_file_may_have_a_question_mark_in_its_name(tmp_path: Path) -> None:
    assert locate(f"sqlite:///{tmp_path}/why%3F.db").path == os.path.realpath(tmp_path / "why?.db")


def test_a_directory_a_missing_directory_and_a_hard_link_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        SqliteStore(tmp_path).describe()
    with pytest.raises(StorageUnavailable, match="create it"):
        SqliteStore(tmp_path / "no" / "jobs.db").describe()
    (tmp_path / "a.db").touch()
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(ConfigError, match="hard links"):
        SqliteStore(tmp_path / "b.db").describe()


def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, this is no database. " * 30)
    before = path.read_bytes()
    store = SqliteStore(path)
    with pytest.raises(ConfigError, match="not a SQLite database"):
        store.write(add("x"))
    assert path.read_bytes() == before
    store.close()


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    prepare(SqliteStore(path)).close()
    with pytest.raises(StorageReadOnly):
        SqliteStore(f"file:{path}?mode=ro").write(add("x"))


def test_a_file_that_its_user_may_not_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    prepare(SqliteStore(path)).close()
    really = os.access
    monkeypatch.setattr(os, "access", lambda name, mode: str(name) != str(path) and really(name, mode))
    with pytest.raises(StorageReadOnly, match="not writable"):
        SqliteStore(path).write(add("x"))


def test_a_fresh_database_is_migrated_on_first_use_and_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    assert store.read(applied()) == [migration.version for migration in migrate.migrations("sqlite")]
    assert store.migrate() == []
    store.close()


def test_a_database_of_the_users_own_gets_our_tables_beside_theirs(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as own:
        own.execute("create table customer (id integer)")
    own.close()
    store = SqliteStore(tmp_path / "shop.db")
    assert store.read(applied())
    store.close()


def test_an_older_schema_is_not_written_where_migrating_is_left_to_the_operator(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", auto_migrate=False)
    with pytest.raises(SchemaMismatch, match='run "holdfast db migrate"'):
        store.write(add("x"))
    assert store.migrate() == [migration.name for migration in migrate.migrations("sqlite")]
    prepare(store).write(add("x"))
    store.close()


def test_a_newer_schema_may_be_read_but_not_written(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    prepare(SqliteStore(path)).close()
    with sqlite3.connect(path) as newer:
        newer.execute("insert into holdfast_migration values (9999, '9999_future', 0, 9999)")
    newer.close()
    store = SqliteStore(path)
    assert store.read(TEXTS) == []
    with pytest.raises(SchemaMismatch, match="9999"):
        store.write(add("x"))
    with pytest.raises(SchemaMismatch):
        store.migrate()
    store.close()


@pytest.mark.parametrize("lent", [False, True])
def test_a_schema_that_becomes_newer_under_an_open_store_is_not_written_any_more(tmp_path: Path, lent: bool) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    newer = sqlite3.connect(tmp_path / "jobs.db")
    newer.execute("create table holdfast_of_tomorrow (x)")
    newer.execute("insert into holdfast_migration values (9999, 'from_the_future', 0, 9999)")
    newer.commit()
    newer.close()
    with closing(store.connect()) as connection:
        connection.execute("begin")
        write = partial(store.within, connection) if lent else store.write
        with pytest.raises(SchemaMismatch, match="upgrade Holdfast"):
            write(add("after"))
    assert store.read(TEXTS) == ["before"]
    store.close()


def test_a_table_of_the_users_own_that_comes_later_changes_nothing(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as other:
        other.execute("create table theirs (x)")
    store.write(add("after"))
    assert store.read(TEXTS) == ["after"]
    store.close()


def test_a_newer_schema_that_names_this_version_as_a_writer_is_written(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = prepare(SqliteStore(path))
    latest = migrate.migrations("sqlite")[-1].version
    with sqlite3.connect(path) as newer:
        newer.execute("insert into holdfast_migration values (9999, '9999_future', 0, ?)", (latest,))
    newer.close()
    store.close()
    store = SqliteStore(path)
    store.write(add("x"))
    assert store.migrate() == []
    store.close()


OPEN = """
import sys
from holdfast.storage.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
store.describe()
store.close()
"""


def test_many_processes_may_open_a_fresh_file_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN, str(tmp_path / "jobs.db")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen(command, env=environment) for _ in range(6)]
    assert [process.wait(SOON) for process in processes] == [0] * 6


def test_a_trigger_stays_one_statement() -> None:
    text = (
        "-- about a;\ncreate table a (x); -- and so on\n"
        "create trigger t after insert on a begin\n  select 1;\n  select ';';\nend;\n-- the end\n"
    )
    assert [statement.count("\n") for statement in statements(text)] == [2, 4]
    with pytest.raises(ValueError, match="not closed"):
        list(statements("create table a (x)"))


def test_pending_migrations_come_in_order_and_a_newer_version_is_refused() -> None:
    known = migrate.migrations("sqlite")
    assert migrate.pending([], "sqlite") == list(known)
    assert migrate.pending([migration.version for migration in known], "sqlite") == []
    with pytest.raises(SchemaMismatch, match="upgrade Holdfast"):
        migrate.pending([9999], "postgres")
    with pytest.raises(SchemaMismatch, match="holdfast db migrate"):
        migrate.check([], "postgres")


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_code_that_knows_of_no_event_log_may_not_write_beside_it(dialect: migrate.Dialect) -> None:
    """Starts and successes are told by whoever writes them: one who does not would leave them untold."""
    log = next(one.version for one in migrate.migrations(dialect) if one.name.endswith("_events"))
    assert max(one.oldest_writer for one in migrate.migrations(dialect)) >= log


def applied() -> Op[list[int]]:
    async def run(tx: Tx) -> list[int]:
        return [version for (version,) in await tx.all(Statement("applied", migrate.select_applied("sqlite"), ""))]

    return Op(run)


def test_a_file_that_is_replaced_while_open_is_noticed_and_the_next_write_goes_to_the_new_one(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    other = prepare(SqliteStore(tmp_path / "other.db"))
    other.close()
    remove(tmp_path)
    (tmp_path / "other.db").rename(tmp_path / "jobs.db")
    with pytest.raises(StorageUnavailable, match="deleted or replaced"):
        store.write(add("into nothing"))
    store.write(add("after"))
    assert store.read(TEXTS) == ["after"]
    store.close()


def test_a_file_that_is_deleted_while_open_is_not_silently_made_anew(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    remove(tmp_path)
    with pytest.raises(StorageUnavailable, match="deleted or replaced"):
        store.write(add("into nothing"))
    with pytest.raises(StorageUnavailable, match="put it back"):
        store.write(add("still into nothing"))
    with pytest.raises(StorageUnavailable, match="put it back"):
        store.read(TEXTS)
    assert not (tmp_path / "jobs.db").exists()
    store.close()


def test_a_file_that_is_moved_away_and_back_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    (tmp_path / "jobs.db").rename(tmp_path / "aside.db")
    for why in ("deleted or replaced", "put it back"):
        with pytest.raises(StorageUnavailable, match=why):
            store.write(add("into nothing"))
    (tmp_path / "aside.db").rename(tmp_path / "jobs.db")
    store.write(add("after"))
    assert store.read(TEXTS) == ["before", "after"]
    store.close()


@pytest.mark.parametrize("name", ["jobs.db-wal", "jobs.db-shm"])
def test_a_log_that_is_deleted_while_open_is_noticed_by_the_next_write(tmp_path: Path, name: str) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    (tmp_path / name).unlink()
    calls = [lambda: store.write(add("into nothing")), lambda: store.write(add("still")), lambda: store.read(TEXTS)]
    for call in calls:
        with pytest.raises(StorageUnavailable, match=rf"{name} was deleted or replaced.*stop all programs"):
            call()
    store.close()
    (tmp_path / "jobs.db-shm").unlink(missing_ok=True)  # as the next program says
    restarted = [sys.executable, "-c", RESTARTED, str(tmp_path / "jobs.db")]
    seen = subprocess.run(restarted, capture_output=True, text=True, timeout=SOON, check=True).stdout
    assert seen.split() == ["before", "after"], "what was acknowledged is in the file"


RESTARTED = """
import sys
from holdfast.storage.sqlite import SqliteStore
from tests.unit.sqlite_kit import TEXTS, add
store = SqliteStore(sys.argv[1])
store.write(add("after"))
print(*store.read(TEXTS))
store.close()
"""


def test_an_awaiting_caller_notices_a_deleted_log_too(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))

    async def main() -> None:
        await store.awrite(add("before"))
        (tmp_path / "jobs.db-wal").unlink()
        with pytest.raises(StorageUnavailable, match="jobs.db-wal was deleted or replaced"):
            await store.awrite(add("into nothing"))
        with pytest.raises(StorageUnavailable, match="jobs.db-wal was deleted or replaced"):
            await store.aread(TEXTS)

    asyncio.run(main())
    store.close()


def test_a_log_that_is_replaced_while_open_is_noticed_and_not_written_over(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    (tmp_path / "jobs.db-wal").unlink()
    (tmp_path / "jobs.db-wal").write_bytes(b"")
    with pytest.raises(StorageUnavailable, match="what was stored last may be lost"):
        store.write(add("into nothing"))
    assert (tmp_path / "jobs.db-wal").read_bytes() == b""
    store.close()


def test_nobody_opens_a_file_whose_log_was_deleted_under_another_program(tmp_path: Path) -> None:
    """It would begin a log beside the deleted one, and both would write the same pages."""
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    (tmp_path / "jobs.db-wal").unlink()
    other = SqliteStore(tmp_path / "jobs.db")
    with pytest.raises(StorageUnavailable, match=r"jobs.db-shm is there.*stop all programs.*db verify"):
        other.write(add("beside"))
    assert not (tmp_path / "jobs.db-wal").exists()
    other.close()
    store.close()


def test_doctor_names_a_deleted_log(tmp_path: Path) -> None:
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    store.write(add("before"))
    (tmp_path / "jobs.db-wal").unlink()
    result = CliRunner().invoke(
        cli, ["doctor", "--store", str(tmp_path / "jobs.db")], env={"HOLDFAST_STORE": None}, terminal_width=1_000
    )
    assert result.exit_code != 0
    assert "jobs.db-wal was deleted" in result.output
    store.close()


def remove(folder: Path) -> None:
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
        (folder / name).unlink()
