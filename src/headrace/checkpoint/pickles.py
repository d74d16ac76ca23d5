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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MemberDescriptorType
from typing import Any, NoReturn

from headrace.core.collector import paused_collector
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

    keeps_all_in_dict: bool = field(init=False)
    """Whether setting fields is nothing but putting them into the ``__dict__`` of an instance."""

    def __post_init__(self) -> None:
        required = frozenset(name for name in self.fields if not _has_default(self.kind, name))
        object.__setattr__(self, "required", required)
        plain = self.kind.__dictoffset__ != 0 and not any(
            hasattr(getattr(self.kind, name, None), "__set__") for name in self.fields
        )
        object.__setattr__(self, "keeps_all_in_dict", plain)


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
        with paused_collector():  # it would look at all that was made again and again
            return machine.run()
    except _DAMAGE as error:
        raise CorruptDataError(
            f"{what} is not a pickle that can be read: {type(error).__name__} at byte "
            f"{machine.position}; the file is damaged or was written by something else than torch"
        ) from error


_DAMAGE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    struct.error,
)
"""What Python raises where an operation meets a stack, a memo or a value that does not suit it."""

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_TEXT = frozenset({str})
_SIZED = frozenset({str, bytes})
_DICTS = frozenset({dict, OrderedDict})
_MOST_ITEMS = 64
"""Of a tuple that is a key or an argument; torch allows no more dimensions."""

_MOST_NAME = 1000
"""Letters of a module and a name."""

_MOST_FORMS = 100
"""Of instances that are remembered; a checkpoint's metadata has about ten."""

_unsigned = struct.Struct("<I").unpack_from
_signed = struct.Struct("<i").unpack_from


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
        self.position = 0
        """Bytes that were read."""
        self._table = table
        self._what = what
        self._opaque = opaque
        self._persistent = persistent
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        """Stacks below each mark that is open."""
        self._memo: list[Any] = []
        self._sparse: dict[int, Any] = {}
        """What was kept at an index beyond the end of the memo: no writer does that."""
        self._classes = {one.kind: one for one in table.values() if isinstance(one, Class)}
        self._unfilled: set[int] = set()
        """Identities of instances that were made and lack their fields."""
        self._forms: dict[tuple[type, ...], list[str]] = {}
        """Names of fields, by class and types of their values."""
        self._left = 4 * len(data) + 1000
        """Steps that may still be done with values that were made before, and may be long."""

    def run(self) -> object:  # noqa: PLR0912, PLR0915 - see below
        """Do all operations and return what is left.

        The operations of which a checkpoint's metadata has millions are done here, not by the
        table: a call of each would take three times as long.
        """
        data, stack, memo, sparse = self._data, self._stack, self._memo, self._sparse
        memoize: Callable[[object], object] = memo.append
        position = 0
        try:
            while True:
                code = data[position]
                position += 1
                if code == 0x94:  # MEMOIZE
                    memoize(stack[-1])
                elif code < 0x80:
                    if code == 0x6A:  # j: LONG_BINGET
                        index = _unsigned(data, position)[0]
                        position += 4
                        stack.append(memo[index] if index < len(memo) else sparse[index])
                    elif code == 0x68:  # h: BINGET
                        index = data[position]
                        position += 1
                        stack.append(memo[index] if index < len(memo) else sparse[index])
                    elif code == 0x4B:  # K: BININT1
                        stack.append(data[position])
                        position += 1
                    elif code == 0x28:  # (: MARK
                        self._marked.append(stack)
                        stack = []
                    elif code == 0x29:  # ): EMPTY_TUPLE
                        if data[position] == 0x81:  # NEWOBJ
                            position += 1
                            self.position = position
                            stack[-1] = self._make(stack[-1], ())
                        else:
                            stack.append(())
                    elif code == 0x7D:  # }: EMPTY_DICT
                        stack.append({})
                    elif code == 0x75:  # u: SETITEMS
                        self.position = position
                        items, stack = stack, self._marked.pop()
                        if data[position] == 0x62:  # b: BUILD
                            position += 1
                            state = stack.pop()
                            self._set_and_fill(stack[-1], state, items)
                        else:
                            self._set_items(stack[-1], items)
                    elif code == 0x62:  # b: BUILD
                        self.position = position
                        state = stack.pop()
                        self._fill(stack[-1], state)
                    elif code == 0x52:  # R: REDUCE
                        self.position = position
                        arguments = stack.pop()
                        stack[-1] = self._call(stack[-1], arguments)
                    elif code == 0x4D:  # M: BININT2
                        stack.append(data[position] | data[position + 1] << 8)
                        position += 2
                    elif code == 0x4A:  # J: BININT
                        stack.append(_signed(data, position)[0])
                        position += 4
                    elif code == 0x71:  # q: BINPUT
                        memoize = self._put(data[position], stack[-1])
                        position += 1
                    elif code == 0x72:  # r: LONG_BINPUT
                        memoize = self._put(_unsigned(data, position)[0], stack[-1])
                        position += 4
                    elif code == 0x2E:  # .: STOP
                        self.position, self._stack = position, stack
                        return self._result()
                    else:
                        self.position, self._stack = position, stack
                        _OPERATIONS[code](self)
                        position, stack = self.position, self._stack
                elif code == 0x81:  # NEWOBJ
                    self.position = position
                    arguments = stack.pop()
                    stack[-1] = self._make(stack[-1], arguments)
                elif code == 0x8C and position + data[position] < len(data):  # SHORT_BINUNICODE
                    begin = position + 1
                    position = begin + data[position]
                    stack.append(str(data[begin:position], "utf-8"))
                elif code == 0x85:  # TUPLE1
                    stack[-1] = (stack[-1],)
                elif code == 0x86:  # TUPLE2
                    if len(stack) < 2:
                        self.position = position
                        raise self._damage("a tuple lacks its values")
                    second = stack.pop()
                    stack[-1] = (stack[-1], second)
                else:
                    self.position, self._stack = position, stack
                    _OPERATIONS[code](self)
                    position, stack = self.position, self._stack
        except _DAMAGE as error:
            self.position = max(position, self.position)
            if self.position >= len(data):
                raise self._damage("it ends before its end") from error
            raise

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
        begin = self.position
        taken = self._data[begin : begin + length]
        if len(taken) != length:
            raise self._damage(f"it ends within a value of {length:,} bytes")
        self.position += length
        return taken

    def _discard(self, length: int) -> None:
        self._take(length)

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        end = self._data.find(b"\n", self.position)
        if end < 0:
            raise self._damage("it ends within a name")
        line = self._data[self.position : end]
        self.position = end + 1
        return line.decode()

    def _push_long(self) -> None:
        self._stack.append(int.from_bytes(self._take(self._number(1)), "little", signed=True))

    def _push_float(self) -> None:
        self._stack.append(struct.unpack(">d", self._take(8))[0])

    # The stack and the memo.

    def _put(self, index: int, value: object) -> Callable[[object], object]:
        """Keep a value in the memo, and return what keeps the next that comes without an index."""
        memo, sparse = self._memo, self._sparse
        if index < len(memo):
            memo[index] = value
        elif index == len(memo):
            memo.append(value)
            sparse.pop(index, None)
        else:
            sparse[index] = value
        return self._put_next if sparse else memo.append

    def _put_next(self, value: object) -> None:
        self._put(len(self._memo) + len(self._sparse), value)

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

    def _tuple_of_three(self) -> None:
        if len(self._stack) < 3:
            raise self._damage("a tuple lacks its values")
        self._stack[-3:] = [tuple(self._stack[-3:])]

    def _append(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is list:
            target.extend(values)
        elif type(target) is not Opaque:
            raise self._damage("values are appended to what is no list")

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items(self._stack[-1], [key, value])

    def _set_items(self, target: Any, items: list[Any]) -> None:
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
        for kind in dict.fromkeys(map(type, values)):
            if kind in _SIZED:
                self._spend(sum(len(one) >> 6 for one in values if type(one) is kind))
            elif not self._are_keys(kind, values):
                raise self._damage(f"a {kind.__name__} is no key")

    def _are_keys(self, kind: type, values: list[Any]) -> bool:
        """Tell whether those values that are of one type may be keys."""
        entry = self._classes.get(kind)
        if entry is not None:
            return entry.is_key and self._unfilled.isdisjoint(map(id, values))
        return kind is Opaque or (
            kind is not list and all(_is_plain(one) for one in values if type(one) is kind)
        )

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

    def _call(self, function: Any, arguments: Any) -> object:
        if type(function) is Opaque:
            return function
        if type(function) is not Function or type(arguments) is not tuple:
            raise self._damage("it calls what is no function")
        for one in arguments:
            if not function.takes_all and not _is_plain(one):
                raise self._damage("a function is called with what is not plain")
            if type(one) is list:
                self._spend(len(one))
        return function.call(*arguments)

    def _make(self, entry: Any, arguments: Any) -> object:
        if type(entry) is Opaque:
            return entry
        if type(entry) is not Class or type(arguments) is not tuple or arguments:
            raise self._damage("it makes an instance of what is no class")
        made: object = object.__new__(entry.kind)
        if entry.required:
            self._unfilled.add(id(made))
        return made

    def _fill(self, target: Any, state: Any) -> None:
        kind = type(target)
        if kind is Opaque or kind is OrderedDict:  # torch puts notes on state dicts
            return
        entry = self._classes[kind]
        if entry.required and id(target) not in self._unfilled:
            raise self._damage(f"a {kind.__name__} is filled twice")
        self._unfilled.discard(id(target))
        if type(state) is tuple and entry.order:
            state = dict(zip(entry.order, state, strict=False))
        if type(state) is not dict:
            raise self._damage(f"the state of a {kind.__name__} lacks fields")
        if not entry.required <= state.keys():
            raise self._damage(f"the state of a {kind.__name__} lacks fields")
        self._spend(len(state))
        for name, value in state.items():
            allowed = entry.fields.get(name)
            if allowed is None:
                continue
            if type(value) not in allowed and object not in allowed:
                raise self._damage(f"{name} of a {kind.__name__} is a {type(value).__name__}")
            object.__setattr__(target, name, value)

    def _set_and_fill(self, target: Any, state: Any, items: list[Any]) -> None:
        """Set a state's items and fill an instance with it.

        Nearly all instances of a pickle have one of a few forms: what was looked at for the first
        of a form, its names and the types of its values, holds for all.
        """
        form = (type(target), *map(type, items[1::2]))
        if (
            self._forms.get(form) != items[::2]  # texts, which are compared with whatever it is
            or type(state) is not dict
            or state
            or id(target) not in self._unfilled
        ):
            self._set_items(state, items)
            self._fill(target, state)
            self._learn(form, state, items[::2])
            return
        self._unfilled.remove(id(target))
        self._spend(len(items) >> 1)
        pairs = iter(items)
        state.update(zip(pairs, pairs))  # noqa: B905 - as many names as values
        target.__dict__.update(state)

    def _learn(self, form: tuple[type, ...], state: dict[Any, object], names: list[Any]) -> None:
        """Keep the form of an instance, if all of its state was set at once, and are fields."""
        entry = self._classes.get(form[0])
        if (
            entry is not None
            and entry.keeps_all_in_dict
            and len(self._forms) < _MOST_FORMS
            and len(state) == len(names)
            and state.keys() == set(names)
            and state.keys() <= entry.fields.keys()
        ):
            self._forms[form] = names

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


def _value(value: object) -> _Operation:
    return lambda one: one._stack.append(value)


_BY_CODE: dict[bytes, _Operation] = {
    b"\x80": _skip(1),
    b"\x95": _skip(8),
    b"N": _value(None),
    b"\x88": _value(True),
    b"\x89": _value(False),
    b"\x8a": _Machine._push_long,
    b"G": _Machine._push_float,
    b"\x8c": _text(1),
    b"X": _text(4),
    b"\x8d": _text(8),
    b"C": _octets(1),
    b"B": _octets(4),
    b"\x8e": _octets(8),
    b"0": _Machine._pop,
    b"1": _Machine._pop_to_mark,
    b"\x87": _Machine._tuple_of_three,
    b"t": _Machine._tuple_above_mark,
    b"]": lambda one: one._stack.append([]),
    b"a": lambda one: one._append([one._stack.pop()]),
    b"e": lambda one: one._append(one._above_mark()),
    b"s": _Machine._set_item,
    b"\x8f": lambda one: one._stack.append(set()),
    b"\x90": lambda one: one._add_items(one._above_mark()),
    b"\x91": _Machine._push_frozen_set,
    b"Q": _Machine._push_persistent,
    b"c": _Machine._push_global,
    b"\x93": _Machine._push_stack_global,
}

_OPERATIONS: list[_Operation] = [
    _BY_CODE.get(bytes([code]), _Machine._refuse) for code in range(256)
]
