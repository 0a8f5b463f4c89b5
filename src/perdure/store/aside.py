"""Why a store is not to be run on, although it is whole: it is a backup, half a copy, or was copied elsewhere.

Kept in the store's own `meta`, so that it goes wherever its file goes. Whoever opens a store asks; who made the mark
clears it.
"""

from __future__ import annotations

from perdure.errors import UserError

KEY = "aside"
"""The mark's key in `meta`; its value is `WHY DETAIL`."""

BACKUP = "backup"
"""Detail: when it was made, in milliseconds. What happened since is not in it, and running on would not know."""
RESTORING = "restoring"
"""Detail: when that state was, if known. It was brought back to it, and not all of it has been paused yet."""
COPYING = "copying"
"""Detail: store and ownership that it is a copy of."""
COPIED = "copied"
"""Detail: the id of the copy's store, then where it is. Running on here too would do everything twice."""

_WHAT = {
    BACKUP: "is a backup: what happened since it was made is not in it, and whoever runs on it could act twice. "
    "`perdure db restore` makes a store of it, or, if this is the store, `perdure db restore --in-place`",
    RESTORING: "is being restored. If that was interrupted, `perdure db restore --in-place` completes it",
    COPYING: "is half a copy of another store. `perdure db copy`, with the same source, goes on where it was",
    COPIED: "was copied, and the copy goes on with its work: to run here too would do everything twice. Run on the "
    "copy; to come back to this older state all the same, `perdure db restore --in-place`",
}


def refuse_aside(mark: str, where: str) -> None:
    """Raise UserError (`store_aside`) if the mark says that the store is not to be run on."""
    why, _, detail = mark.partition(" ")
    if why in _WHAT:
        raise UserError(f"{where} {_WHAT[why]}. Nothing was changed.", code="store_aside", why=why, detail=detail)
