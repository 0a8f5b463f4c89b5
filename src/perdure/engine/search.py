"""Find executions by a text, newest first. An id that begins with it is found by an index. What stands in an input no
index knows: the newest executions are looked at one by one, and a page has its bounds, whatever the store holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.ids import check_named, shard_of
from perdure.core.views import ExecutionFilter, ExecutionSummary, FoundPage
from perdure.engine.query_list import execution_page
from perdure.errors import InvalidInput
from perdure.store.protocol import Reads
from perdure.store.sql_store import names

MOST_TEXT = 200
"""Characters of a text that is looked for."""
MOST_LOOKED_AT = 500
"""Executions that one page looks at; the next page goes on behind them."""
BEGINNING = 20_000
"""Characters of an input that are looked at."""
_STRIDE = 100
_ID = re.compile(r"exe_\w*", re.ASCII | re.IGNORECASE)
_BEFORE_INPUT = '"input":'


def check_text(text: str) -> str:
    """Return what is looked for. Raises `InvalidInput` for a text that is empty, too long or in no store."""
    check_named(text=text)
    wanted = text.strip()
    if not 1 <= len(wanted) <= MOST_TEXT:
        raise InvalidInput(
            f"text should be 1 to {MOST_TEXT} characters that are looked for; found {len(wanted)}.", fields=["text"]
        )
    return wanted


def found_page(
    reads: Reads, company: str, wanted: ExecutionFilter, text: str, *, cursor: str | None = None, limit: int
) -> FoundPage:
    """Return a page of a company's executions that are `wanted` and have a text, whatever its case, in their id, agent,
    tags or the beginning of their input; of a text that begins an id only those whose id begins so."""
    if _ID.fullmatch(text):
        begun = replace(wanted, id_begins=text.lower())
        page = execution_page(reads, company, begun, cursor=cursor, limit=limit)
        return FoundPage(page.items, page.cursor, len(page.items))
    folded, found, looked_at = text.casefold(), list[ExecutionSummary](), 0
    while looked_at < MOST_LOOKED_AT:
        page = execution_page(reads, company, wanted, cursor=cursor, limit=_STRIDE)
        looked_at += len(page.items)
        found += _having(reads, folded, page.items)
        if len(found) >= limit:
            return FoundPage(tuple(found[:limit]), found[limit - 1].id, looked_at)
        cursor = page.cursor
        if cursor is None:
            break
    return FoundPage(tuple(found), cursor, looked_at)


def _having(reads: Reads, folded: str, items: Iterable[ExecutionSummary]) -> list[ExecutionSummary]:
    rest: dict[str, Json] = {one.id: shard_of(one.id) for one in items if not _said(one, folded)}
    rows = reads.rows("first_events", wanted=names("first_events", rest), most=BEGINNING) if rest else []
    # The log has it as JSON, cut where it is long: so is what is looked for, and nothing is read back.
    encoded = codec.encode(folded)[1:-1]
    given = {row["execution"] for row in rows if encoded in str(row["data"]).partition(_BEFORE_INPUT)[2].casefold()}
    return [one for one in items if one.id not in rest or one.id in given]


def _said(one: ExecutionSummary, folded: str) -> bool:
    return any(folded in each.casefold() for each in (one.id, one.agent, *one.tags))
