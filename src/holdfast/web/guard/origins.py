"""The origin check for requests authenticated by a browser. A token in a header needs no such check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from ..wire.failures import Refused

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OURS: Final = frozenset({"same-origin", "none"})


def check_origin(method: str, headers: Mapping[str, str], *, cookie: bool) -> None:
    """Reject a request that a page of another site makes a browser send.

    `cookie` is True if the caller is authenticated by a session. Then actions need a header that proves the page is
    ours; without a session, on loopback, a program that sends neither header may act too.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    # With our no-referrer policy, browsers send "null" as the origin of our own forms; then Sec-Fetch-Site counts,
    # which no page can forge: a page without an origin of its own is never "same-origin".
    is_unsaid = origin == "null" and site == "same-origin"
    if origin is not None and not is_unsaid and not _is_own(origin, headers.get("host", "")):
        raise _foreign(origin)
    if method in SAFE:
        # A link from another site may lead here; a script or an image from another site may not read.
        if site not in (None, *_OURS) and headers.get("sec-fetch-mode") != "navigate":
            raise _foreign(site or "")
    elif site is not None and site not in _OURS:
        raise _foreign(site)
    elif site is None and origin is None and cookie:
        raise Refused(403, "cross_site", "sessions can act only from the site's own pages; programs need a token")


def _is_own(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.strip().lower()
    except ValueError:  # such as http://[
        return False


def _foreign(source: str) -> Refused:
    return Refused(403, "cross_site", f"request from another site ({source}) rejected")
