"""Whether a request that a browser vouches for comes from our own pages. A token in a header needs no such proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from ..wire.failures import Refused

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OURS: Final = frozenset({"same-origin", "none"})


def check_origin(method: str, headers: Mapping[str, str], *, cookie: bool) -> None:
    """Refuse what another site's page makes a browser send.

    `cookie` says that a session vouches for the caller. Then acting needs a browser's word that the page is ours;
    without a session, on loopback, a program that sends neither header may act as well.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    # Under our policy of no referrer, browsers write "null" for the origin of our own forms; then their word on the
    # site counts, which no page can forge: a page without an origin of its own is never "same-origin".
    is_unsaid = origin == "null" and site == "same-origin"
    if origin is not None and not is_unsaid and not _is_own(origin, headers.get("host", "")):
        raise _foreign(origin)
    if method in SAFE:
        # A link from elsewhere may lead here; a script or an image from elsewhere may not look.
        if site not in (None, *_OURS) and headers.get("sec-fetch-mode") != "navigate":
            raise _foreign(site or "")
    elif site is not None and site not in _OURS:
        raise _foreign(site)
    elif site is None and origin is None and cookie:
        raise Refused(403, "cross_site", "a session may act only from the site's own pages; programs use a token")


def _is_own(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.strip().lower()
    except ValueError:  # such as http://[
        return False


def _foreign(source: str) -> Refused:
    return Refused(403, "cross_site", f"a page of another site ({source}) may not ask for this")
