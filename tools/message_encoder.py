"""Writes an encoder for one layout; it mirrors the decoder."""

from message_schema import FIXED, Field, Layout, MergedStructure, Structure
from message_text import Code

NO_TAGS = b"\0"
ABSENT, PRESENT = b"\xff", b"\x01"
"""Before a structure that may be null."""


class Encoder:
    def __init__(
        self, code: Code, classes: dict[str, MergedStructure], *, in_steps: bool = False
    ) -> None:
        self.code = code
        self.classes = classes
        self.in_steps = in_steps
        self._run: list[tuple[str, str]] = []
        self._write = "pieces.append"
        self._label = ""

    def write(self, function: str, layout: Layout) -> None:
        self._label = str(layout.version_max)
        scatter = _has_records(layout.structure)
        assert not (scatter and self.in_steps)
        result = "Generator[None, None, list[Buffer]]" if self.in_steps else "list[Buffer]"
        with self.code.function(f"def {function}(message: {layout.structure.name}) -> {result}:"):
            if scatter or self.in_steps:
                self.code.line("output: list[Buffer] = []")
            self.code.line("pieces: list[Buffer] = []")
            self._structure(layout.structure, "message", "")
            self._flush()
            if self.in_steps:
                self.code.line('output.append(b"".join(pieces))')
                self.code.line("return output")
            elif scatter:
                with self.code.block("if pieces:"):
                    self.code.line('output.append(b"".join(pieces))')
                self.code.line("return output")
            else:
                self.code.line('return [b"".join(pieces)]')

    def _flush(self) -> None:
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        values = ", ".join(value for _, value in self._run if value)
        self._run = []
        if values:
            self.code.line(f"{self._write}({self.code.pack(letters)}({values}))")
        else:
            self.code.line(f"{self._write}({bytes(len(letters))!r})")

    def _length(self, length: str, kind: str, flexible: bool) -> None:
        """Write a length, together with the fixed fields that wait before it."""
        if not flexible:
            self._run.append(("h" if kind == "string" else "i", length))
            self._flush()
            return
        letters = "".join(letter for letter, _ in self._run)
        values = ", ".join(value for _, value in self._run if value)
        self._run = []
        self.code.line(f"size = {length} + 1")
        if not letters:
            self.code.line(f"{self._write}(ONE_BYTE[size] if size < 128 else uvarint(size))")
            return
        with self.code.block("if size < 128:"):
            joined = f"{values}, size" if values else "size"
            self.code.line(f"{self._write}({self.code.pack(letters + 'B')}({joined}))")
        with self.code.block("else:"):
            alone = f"{self.code.pack(letters)}({values})" if values else repr(bytes(len(letters)))
            self.code.line(f"{self._write}({alone} + uvarint(size))")

    def _structure(self, structure: Structure, source: str, path: str) -> None:
        for field in structure.plain:
            self._field(field, structure, f"{source}.{field.name}", path)
        if structure.flexible and structure.tagged:
            self._flush()
            self._tags(structure, source, path)
        elif structure.flexible and not self._ends_with_branches(structure):
            self._run.append(("x", ""))

    def _ends_with_branches(self, structure: Structure) -> bool:
        """Whether the last field, if it is null, is written together with what stands behind it."""
        return (
            structure.flexible
            and not structure.tagged
            and bool(structure.plain)
            and self._has_branches(structure, structure.plain[-1])
        )

    def _has_branches(self, structure: Structure, field: Field) -> bool:
        """One for null, one for any other value."""
        if field.fixed or not field.nullable or (field.kind == "structure" and not field.array):
            return False
        return self._is_optional(structure, field)

    def _is_optional(self, structure: Structure, field: Field) -> bool:
        """Whether there is a version in which it may be null."""
        merged = next(
            merged for merged in self.classes[structure.name].fields if merged.name == field.name
        )
        return merged.python_type.endswith("| None")

    def _field(self, field: Field, structure: Structure, source: str, path: str) -> None:
        flexible = structure.flexible
        if field.fixed:
            self._run.append((FIXED[field.kind][0], source))
            return
        if field.kind == "structure" and not field.array:
            assert field.structure is not None
            if field.nullable:
                self._nullable_structure(field.structure, source, self.code.name(path, field.name))
            else:
                self._structure(field.structure, source, self.code.name(path, field.name))
            return
        value = self.code.name(path, field.name)
        self.code.line(f"{value} = {source}")
        if self._has_branches(structure, field):
            # Both branches begin behind the same bytes.
            self._flush()
            is_last = field is structure.plain[-1] and self._ends_with_branches(structure)
            with self.code.block(f"if {value} is None:"):
                size = 1 if flexible else 2 if field.kind == "string" and not field.array else 4
                null = b"\0" if flexible else b"\xff" * size
                self.code.line(f"{self._write}({null + NO_TAGS * is_last!r})")
            with self.code.block("else:"):
                self._value(field, flexible, value)
                if is_last:
                    self._run.append(("x", ""))
                self._flush()
            return
        if self._is_optional(structure, field):
            with self.code.block(f"if {value} is None:"):
                label = f"{structure.name}.{field.name}"
                self.code.line(f'raise null_refused("{label}", {self._label})')
        self._value(field, flexible, value)

    def _nullable_structure(self, structure: Structure, source: str, value: str) -> None:
        """A byte before it says whether it is there."""
        self.code.line(f"{value} = {source}")
        self._flush()
        with self.code.block(f"if {value} is None:"):
            self.code.line(f"{self._write}({ABSENT!r})")
        with self.code.block("else:"):
            self.code.line(f"{self._write}({PRESENT!r})")
            self._structure(structure, value, value)
            self._flush()

    def _value(self, field: Field, flexible: bool, value: str) -> None:
        if field.array:
            self._array(field, flexible, value)
        elif field.kind == "string":
            self._string(value, flexible)
        elif field.kind == "records":
            length = self.code.name(value, "size")
            self.code.line(f"{length} = records_size({value})")
            self._length(length, "records", flexible)
            self.code.line(f"put_records({value}, {length}, pieces, output)")
        else:
            self._length(f"len({value})", field.kind, flexible)
            self.code.line(f"{self._write}({value})")

    def _string(self, value: str, flexible: bool) -> None:
        self.code.line(f"text = {value}.encode()")
        self._length("len(text)", "string", flexible)
        self.code.line(f"{self._write}(text)")

    def _array(self, field: Field, flexible: bool, value: str) -> None:
        self._length(f"len({value})", "array", flexible)
        if field.structure is None and field.kind in FIXED:
            letter = FIXED[field.kind][0]
            self.code.line(f'{self._write}(pack(f">{{len({value})}}{letter}", *{value}))')
            return
        element = self.code.name(value, "element")
        with self.code.block(f"for {element} in {value}:"):
            if field.structure is not None:
                self._structure(field.structure, element, value)
                self._flush()
                if self.in_steps:
                    self._step()
            else:
                self._string(element, flexible)

    def _step(self) -> None:
        with self.code.block("if len(pieces) > PIECES_AT_ONCE:"):
            self.code.line('output.append(b"".join(pieces))')
            self.code.line("pieces.clear()")
            self.code.line("yield")

    def _tags(self, structure: Structure, source: str, path: str) -> None:
        merged = {field.name: field for field in self.classes[structure.name].fields}
        tags = self.code.name(path, "tags")
        values: list[tuple[Field, str, str]] = []
        for field in structure.tagged:
            value = self.code.name(path, field.name)
            self.code.line(f"{value} = {source}.{field.name}")
            present = _is_sent(field, value, merged[field.name].default)
            values.append((field, value, present))
        # Most messages carry no tagged field at all.
        with self.code.block(f"if {' or '.join(present for _, _, present in values)}:"):
            self.code.line(f"{tags}: list[bytes] = []")
            for field, value, present in values:
                with self.code.block(f"if {present}:"):
                    self._tag(field, value, tags)
            self.code.line(f"{self._write}(uvarint(len({tags})))")
            self.code.line(f'{self._write}(b"".join({tags}))')
        with self.code.block("else:"):
            self.code.line(f"{self._write}({NO_TAGS!r})")

    def _tag(self, field: Field, value: str, tags: str) -> None:
        outer = self._write
        inner = self.code.name(value, "pieces")
        self.code.line(f"{inner}: list[Buffer] = []")
        self._write = f"{inner}.append"
        self._tag_value(field, value)
        self._flush()
        self._write = outer
        joined = self.code.name(value, "joined")
        self.code.line(f'{joined} = b"".join({inner})')
        number = bytes((field.tag or 0,))
        self.code.line(f"{tags}.append({number!r} + uvarint(len({joined})) + {joined})")

    def _tag_value(self, field: Field, value: str) -> None:
        if field.fixed:
            self._run.append((FIXED[field.kind][0], value))
        elif field.structure is not None and not field.array:
            self._structure(field.structure, value, value)
        else:
            self._value(field, True, value)


def _is_sent(field: Field, value: str, default: str) -> str:
    """The condition under which a tagged field differs from its default."""
    if field.structure is not None and not field.array:
        return f"{value} is not None and {value} != {field.structure.name}()"
    if default in {"[]", "False"}:
        return value
    if default == "None":
        return f"{value} is not None"
    return f"{value} != {default}"


def _has_records(structure: Structure) -> bool:
    return any(
        field.kind == "records" or (field.structure is not None and _has_records(field.structure))
        for field in structure.fields
    )
