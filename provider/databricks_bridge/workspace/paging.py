"""Answers that come in pages, followed by their tokens (`next_page_token`) to the end, or to an error: never to a part
that passes for the whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from databricks_bridge.core.errors import BadAnswer, NotAuthenticated, NotPermitted, WorkspaceError

Json = dict[str, Any]


async def pages(get: Callable[[Mapping[str, Any]], Awaitable[Json]], params: Mapping[str, Any]) -> AsyncIterator[Json]:
    """Page after page, as they are consumed; None in `params` is left out by `get`.

    A token that is refused, as one that has expired is, begins once more at the first page: whoever reads must know what
    came before. Raises BadAnswer where pages go in a circle, or more is announced without a way there.
    """
    token, begun_anew, used = None, False, set[str]()
    while True:
        try:
            page = await get({**params, "page_token": token})
        except (NotAuthenticated, NotPermitted):
            raise
        except WorkspaceError:
            if token is None or begun_anew:
                raise
            token, begun_anew, used = None, True, set()
            continue
        yield page
        following = page.get("next_page_token")
        if not following:
            if page.get("has_more"):
                raise BadAnswer("a listing says that there is more, and gives no page_token for it; is it API 2.2?")
            return
        if following in used:
            raise BadAnswer("the pages of a listing go in a circle: a page_token came twice")
        used.add(following)
        token = following
