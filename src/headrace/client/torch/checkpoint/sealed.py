"""Items of a rank's plan, as they travel to the coordinator and back.

torch sends every rank's plan to one of them, which unpickles all of them, one after another, and
pickles them again, while the others wait: 70 ms for 3,000 items of each rank. Hardly any planner
looks at what other ranks load; so items travel as bytes, which nobody opens unless a planner does.
"""

from __future__ import annotations

import pickle
import uuid
from collections import UserList
from collections.abc import Iterable

from torch.distributed.checkpoint.planner import ReadItem


class SealedItems(UserList[ReadItem]):
    """A list that is unpickled when somebody first looks into it. For one thread."""

    def __init__(self, items: Iterable[ReadItem] = ()) -> None:
        self._opened: list[ReadItem] | None = list(items)
        self._sealed = b""
        self._token = uuid.uuid4().hex

    @property
    def data(self) -> list[ReadItem]:  # type: ignore[override]  # UserList's is an attribute
        """The items; who looks at them may change them."""
        if self._opened is None:
            self._opened = pickle.loads(self._sealed)  # torch unpickles the plan around it as well
            self._token = uuid.uuid4().hex
        return self._opened

    def returned(self, came: Iterable[ReadItem]) -> list[ReadItem]:
        """Return the items of a plan that may hold this list, come back as it was sent."""
        if isinstance(came, SealedItems):
            return self.data if came._token == self._token else came.data
        return list(came)

    def __copy__(self) -> SealedItems:
        return SealedItems(self.data)

    def __reduce__(self) -> tuple[object, ...]:
        sealed = self._sealed if self._opened is None else pickle.dumps(self._opened)
        return _received, (sealed, self._token)


def _received(sealed: bytes, token: str) -> SealedItems:
    items = SealedItems()
    items._opened, items._sealed, items._token = None, sealed, token
    return items
