"""Result keys: whoever has the key of a job may ask for its result, without a token."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import NotFound
from ..rules.resultkeys import job_of, result_key
from ..storage.ops.keys import store_secret
from ..storage.port import Op, Store


class ResultKeys:
    """Makes and reads them. The secret of the store is asked for once."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._known: tuple[Store, bytes] | None = None

    def of(self, job_id: str) -> str:
        return result_key(self._secret(), job_id)

    async def aof(self, job_id: str) -> str:
        return result_key(await self._asecret(), job_id)

    def job(self, key: str) -> str:
        """The id of the job that a key is for. NotFound where it is no key of this store."""
        return _found(job_of(self._secret(), key))

    async def ajob(self, key: str) -> str:
        return _found(job_of(await self._asecret(), key))

    def _secret(self) -> bytes:
        store = self._store()
        if self._known is None or self._known[0] is not store:
            self._known = (store, store.write(Op(store_secret)))
        return self._known[1]

    async def _asecret(self) -> bytes:
        store = self._store()
        if self._known is None or self._known[0] is not store:
            self._known = (store, await store.awrite(Op(store_secret)))
        return self._known[1]


def _found(job_id: str | None) -> str:
    if job_id is None:
        raise NotFound("result", "of this key")
    return job_id
