"""Reads pickles without executing them.

Python's own unpickler calls whatever a pickle names. This one is a stack machine of its own that
knows the operations which data needs, and makes nothing but plain values (numbers, texts, lists,
dictionaries, sets, tuples) and what a caller's table names. Nothing is imported, and no method of
a value is called. So that a hash can neither recurse nor take forever, keys are plain or flat.

Time and memory grow with the length of the data, by about 100 bytes for each byte at most, also
where a pickle has the same large value copied or hashed over and over: the caller bounds the
length.

Source: Python's ``pickletools``, protocols 2 to 5, which are what torch writes.
"""

from __future__ import annotations

import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from operator import length_hint
from types import MemberDescriptorType
from typing import Any, NoReturn

from headrace.core.errors import CorruptDataError


@dataclass(frozen=True, kw_only=True, eq=False)
class Class:
    """A class whose instances may be made, and filled with the fields that it has."""

    kind: type
    """Instances are made by ``object.__new__``; ``__init__`` and ``__setstate__`` are not run."""

    fields: Mapping[str, tuple[type, ...]]
    """The exact types that each field takes; ``object``: any. Other fields are left out. Those
    that are not attributes of the class itself must be there."""

    order: tuple[str, ...] = ()
    """Names of the fields, where the state may be a tuple of them."""

    is_key: bool = False
    """Whether instances may be keys: all that their hash looks at is plain or flat."""

    required: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        required = frozenset(name for name in self.fields if not _has_default(self.kind, name))
        object.__setattr__(self, "required", required)


def _has_default(kind: type, name: str) -> bool:
    default = getattr(kind, name, kind)
    return default is not kind and not isinstance(default, MemberDescriptorType)


@dataclass(frozen=True, eq=False)
class Function:
    """A call that does no harm with any arguments that are plain values or flat lists of them."""

    call: Callable[..., object]

    takes_all: bool = False
    """Whether it does no harm with any other arguments either: it looks at their types itself."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A value."""

    value: object


Known = Class | Function | Constant
"""What a name in a pickle stands for."""

Table = Mapping[tuple[str, str], Known]
"""By module and name, as they are written in the pickle."""


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """What is made by a name that the table does not have: nothing at all.

    Calls of it, and what is put into it, are swallowed.
    """

    name: str
    """Module and name, joined by a dot."""


def load(
    data: bytes,
    table: Table,
    *,
    what: str,
    opaque: bool = False,
    persistent: Callable[[object], object] | None = None,
) -> object:
    """Return the value that a pickle describes.

    Args:
        data: The whole pickle; what follows its end is not looked at.
        table: All that it may name.
        what: What the data is called in errors, such as its file.
        opaque: Read a name that is not in the table as an ``Opaque``, unless it is one of
            Python's own library: those are what code in pickles calls. Else it is refused.
        persistent: Turns an identity of something that lies outside of the pickle into what
            stands for it, or raises; None: there are none.

    Raises:
        CorruptDataError: it is cut off, damaged, or names or does what is not data.
    """
    machine = _Machine(data, table, what, opaque=opaque, persistent=persistent)
    try:
        return machine.run()
    except _DAMAGE as error:
        raise CorruptDataError(
            f"{what} is not a pickle that can be read: {type(error).__name__} at byte "
            f"{machine.position}; the file is damaged or was written by something else than torch"
        ) from error


_DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)
"""What Python raises where an operation meets a stack, a memo or a value that does not suit it."""

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_TEXT = frozenset({str})
_SIZED = frozenset({str, bytes})
_DICTS = frozenset({dict, OrderedDict})
_MOST_ITEMS = 64
"""Of a tuple that is a key or an argument; torch allows no more dimensions."""

_MOST_NAME = 1000
"""Letters of a module and a name."""

_STOP, _MEMOIZE, _NEWLINE = ord("."), 0x94, ord("\n")


class _Machine:
    """Stack, memo and the bytes still to be read."""

    def __init__(
        self,
        data: bytes,
        table: Table,
        what: str,
        *,
        opaque: bool,
        persistent: Callable[[object], object] | None,
    ) -> None:
        self._data = data
        self._rest: Iterator[int] = iter(data)
        self._table = table
        self._what = what
        self._opaque = opaque
        self._persistent = persistent
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        """Stacks below each mark that is open."""
        self._memo: dict[int, Any] = {}
        self._classes = {one.kind: one for one in table.values() if isinstance(one, Class)}
        self._unfilled: set[int] = set()
        """Identities of instances that were made and lack their fields."""
        self._left = 4 * len(data) + 1000
        """Steps that may still be done with values that were made before, and may be long."""

    @property
    def position(self) -> int:
        """Bytes that were read."""
        return len(self._data) - length_hint(self._rest)

    def run(self) -> object:
        """Do all operations and return what is left."""
        memo = self._memo
        for code in self._rest:
            if code == _MEMOIZE:  # a quarter of all operations: no call
                memo[len(memo)] = self._stack[-1]
            elif code == _STOP:
                return self._result()
            else:
                _OPERATIONS[code](self)
        raise self._damage("it ends before its end")

    def _result(self) -> object:
        if self._marked or len(self._stack) != 1:
            raise self._damage("it leaves no single value")
        if self._unfilled:
            raise self._damage("an instance lacks its fields")
        return self._stack[0]

    def _damage(self, why: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self._what} is damaged at byte {self.position}: {why}; fetch the file again, or "
            "use another checkpoint"
        )

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise self._damage("it has long values worked on again and again")

    # What is written in the pickle itself.

    def _take(self, length: int) -> bytes:
        taken = bytes(islice(self._rest, length)) if length <= len(self._data) else b""
        if len(taken) != length:
            raise self._damage(f"it ends within a value of {length:,} bytes")
        return taken

    def _discard(self, length: int) -> None:
        self._take(length)

    def _number(self, width: int) -> int:
        """Return a number; one that is cut off is followed by the end, which is refused."""
        return int.from_bytes(islice(self._rest, width), "little")

    def _line(self) -> str:
        line = bytes(takewhile(_NEWLINE.__ne__, self._rest))
        if self._data[self.position - 1] != _NEWLINE:
            raise self._damage("it ends within a name")
        return line.decode()

    def _push_signed(self) -> None:
        self._stack.append(int.from_bytes(self._take(4), "little", signed=True))

    def _push_long(self) -> None:
        self._stack.append(int.from_bytes(self._take(self._number(1)), "little", signed=True))

    def _push_float(self) -> None:
        self._stack.append(struct.unpack(">d", self._take(8))[0])

    # The stack and the memo.

    def _mark(self) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _above_mark(self) -> list[Any]:
        above, self._stack = self._stack, self._marked.pop()
        return above

    def _pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._above_mark()

    def _pop_to_mark(self) -> None:
        self._above_mark()

    # Tuples, lists, dictionaries and sets.

    def _tuple_above_mark(self) -> None:
        above = self._above_mark()
        self._stack.append(tuple(above))

    def _tuple(self, length: int) -> None:
        if len(self._stack) < length:
            raise self._damage("a tuple lacks its values")
        self._stack[-length:] = [tuple(self._stack[-length:])]

    def _append(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is list:
            target.extend(values)
        elif type(target) is not Opaque:
            raise self._damage("values are appended to what is no list")

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) in _DICTS:
            keys = items[::2]
            self._require_keys(keys)
            target.update(zip(keys, items[1::2], strict=True))
        elif type(target) is not Opaque:
            raise self._damage("items are set in what is no dictionary")

    def _add_items(self, values: list[Any]) -> None:
        target = self._stack[-1]
        self._require_keys(values)
        if type(target) is set:
            target.update(values)
        elif type(target) is not Opaque:
            raise self._damage("values are added to what is no set")

    def _push_frozen_set(self) -> None:
        values = self._above_mark()
        self._require_keys(values)
        self._stack.append(frozenset(values))

    def _require_keys(self, values: list[Any]) -> None:
        if _TEXT.issuperset(map(type, values)):
            self._spend(sum(map(len, values)) >> 6)
            return
        for value in values:
            if type(value) in _SIZED:
                self._spend(len(value) >> 6)
            if not self._is_key(value):
                raise self._damage(f"a {type(value).__name__} is no key")

    def _is_key(self, value: object) -> bool:
        entry = self._classes.get(type(value))
        if entry is not None:
            return entry.is_key and id(value) not in self._unfilled
        return type(value) is Opaque or (type(value) is not list and _is_plain(value))

    # Names, calls and instances.

    def _push_global(self) -> None:
        module = self._line()
        self._stack.append(self._find(module, self._line()))

    def _push_stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise self._damage("a name is no text")
        self._stack.append(self._find(module, name))

    def _find(self, module: str, name: str) -> object:
        if len(module) + len(name) > _MOST_NAME:
            raise self._damage("a name is too long")
        entry = self._table.get((module, name))
        if entry is not None:
            return entry.value if isinstance(entry, Constant) else entry
        if self._opaque and module.partition(".")[0] not in sys.stdlib_module_names:
            return Opaque(f"{module}.{name}")
        raise CorruptDataError(
            f"{self._what} names {module[:99]}.{name[:99]}, which is no data that is known; "
            "it may carry code, and nothing of it was executed"
        )

    def _call(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if type(function) is Opaque:
            self._stack.append(function)
            return
        if type(function) is not Function or type(arguments) is not tuple:
            raise self._damage("it calls what is no function")
        if not function.takes_all and not all(map(_is_plain, arguments)):
            raise self._damage("a function is called with what is not plain")
        self._spend(sum(len(one) for one in arguments if type(one) is list))
        self._stack.append(function.call(*arguments))

    def _make(self) -> None:
        arguments, entry = self._stack.pop(), self._stack.pop()
        if type(entry) is Opaque:
            self._stack.append(entry)
            return
        if type(entry) is not Class or type(arguments) is not tuple or arguments:
            raise self._damage("it makes an instance of what is no class")
        made: object = object.__new__(entry.kind)
        if entry.required:
            self._unfilled.add(id(made))
        self._stack.append(made)

    def _fill(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(target) is Opaque or type(target) is OrderedDict:  # torch puts notes on state dicts
            return
        entry = self._classes[type(target)]
        if entry.required and id(target) not in self._unfilled:
            raise self._damage(f"a {entry.kind.__name__} is filled twice")
        self._unfilled.discard(id(target))
        for name, value in self._state(entry, state).items():
            allowed = entry.fields.get(name)
            if allowed is None:
                continue
            if type(value) not in allowed and object not in allowed:
                raise self._damage(f"{name} of a {entry.kind.__name__} is a {type(value).__name__}")
            object.__setattr__(target, name, value)

    def _state(self, entry: Class, state: object) -> dict[Any, object]:
        if type(state) is tuple and entry.order:
            state = dict(zip(entry.order, state, strict=False))
        if type(state) is not dict or not entry.required <= state.keys():
            raise self._damage(f"the state of a {entry.kind.__name__} lacks fields")
        self._spend(len(state))
        return state

    def _push_persistent(self) -> None:
        if self._persistent is None:
            self._refuse()
        self._stack.append(self._persistent(self._stack.pop()))

    def _refuse(self) -> NoReturn:
        code = self._data[self.position - 1]
        raise self._damage(f"operation {bytes([code])!r} is not one that data needs")


def _is_plain(value: object) -> bool:
    """Tell whether a value is a scalar, a flat list, or a flat tuple that is not long."""
    if isinstance(value, tuple):
        return len(value) <= _MOST_ITEMS and _SCALARS.issuperset(map(type, value))
    kind = type(value)
    return kind in _SCALARS or (kind is list and _SCALARS.issuperset(map(type, value)))  # type: ignore[call-overload]


_Operation = Callable[[_Machine], None]


def _skip(width: int) -> _Operation:
    """For the protocol's number and the lengths of frames, which say nothing that is needed."""
    return lambda one: one._discard(width)


def _text(width: int) -> _Operation:
    return lambda one: one._stack.append(str(one._take(one._number(width)), "utf-8"))


def _octets(width: int) -> _Operation:
    return lambda one: one._stack.append(one._take(one._number(width)))


def _integer(width: int) -> _Operation:
    return lambda one: one._stack.append(one._number(width))


def _value(value: object) -> _Operation:
    return lambda one: one._stack.append(value)


def _made(kind: Callable[[], object]) -> _Operation:
    return lambda one: one._stack.append(kind())


def _get(width: int) -> _Operation:
    return lambda one: one._stack.append(one._memo[one._number(width)])


def _put(width: int) -> _Operation:
    return lambda one: one._memo.__setitem__(one._number(width), one._stack[-1])


_BY_CODE: dict[bytes, _Operation] = {
    b"\x80": _skip(1),
    b"\x95": _skip(8),
    b"N": _value(None),
    b"\x88": _value(True),
    b"\x89": _value(False),
    b"K": _integer(1),
    b"M": _integer(2),
    b"J": _Machine._push_signed,
    b"\x8a": _Machine._push_long,
    b"G": _Machine._push_float,
    b"\x8c": _text(1),
    b"X": _text(4),
    b"\x8d": _text(8),
    b"C": _octets(1),
    b"B": _octets(4),
    b"\x8e": _octets(8),
    b"(": _Machine._mark,
    b"0": _Machine._pop,
    b"1": _Machine._pop_to_mark,
    b"h": _get(1),
    b"j": _get(4),
    b"q": _put(1),
    b"r": _put(4),
    b")": _value(()),
    b"\x85": partial(_Machine._tuple, length=1),
    b"\x86": partial(_Machine._tuple, length=2),
    b"\x87": partial(_Machine._tuple, length=3),
    b"t": _Machine._tuple_above_mark,
    b"]": _made(list),
    b"a": lambda one: one._append([one._stack.pop()]),
    b"e": lambda one: one._append(one._above_mark()),
    b"}": _made(dict),
    b"s": lambda one: one._set_items([one._stack.pop(-2), one._stack.pop()]),
    b"u": lambda one: one._set_items(one._above_mark()),
    b"\x8f": _made(set),
    b"\x90": lambda one: one._add_items(one._above_mark()),
    b"\x91": _Machine._push_frozen_set,
    b"Q": _Machine._push_persistent,
    b"c": _Machine._push_global,
    b"\x93": _Machine._push_stack_global,
    b"R": _Machine._call,
    b"\x81": _Machine._make,
    b"b": _Machine._fill,
}

_OPERATIONS: list[_Operation] = [
    _BY_CODE.get(bytes([code]), _Machine._refuse) for code in range(256)
]
