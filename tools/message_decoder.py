"""Writes a decoder for one layout: straight-line code, runs of fixed fields in one call."""

from collections.abc import Iterator

from message_schema import (
    FIXED,
    Field,
    Layout,
    MergedStructure,
    Structure,
    field_size_min,
    nested,
)
from message_text import Code

LENGTH = {"string": ("h", 2)}
"""How a length is written before the flexible versions; anything else has 4 bytes."""


class Decoder:
    def __init__(self, code: Code, classes: dict[str, MergedStructure], direction: str) -> None:
        self.code = code
        self.direction = direction
        self.classes = classes
        self._run: list[tuple[str, str, int]] = []

    def write(self, function: str, layout: Layout) -> None:
        name = layout.structure.name
        with self.code.function(
            f"def {function}(buffer: Buffer, position: int) -> tuple[{name}, int]:"
        ):
            self.code.line("limit = len(buffer)")
            if any(field.kind == "records" for field in _all_fields(layout.structure)):
                self.code.line("view = memoryview(buffer)")
            if any(map(_is_counted, _all_fields(layout.structure))):
                self.code.line(f"room = {self.direction.upper()}_ELEMENT_COUNT_MAX")
            built = self._structure(layout.structure, "")
            # A slice beyond the end is silently short; since the position never
            # goes back, this one check finds every such slice.
            with self.code.block("if position > limit:"):
                self.code.line('raise Malformed("the message is cut short")')
            self.code.line(f"return {built}, position")

    def _structure(self, structure: Structure, path: str) -> str:
        """Decode all fields into local variables; the expression that builds the structure."""
        values: dict[str, str] = {}
        for field in structure.plain:
            values[field.name] = self._field(field, structure.flexible, path)
        if structure.flexible:
            if structure.tagged or self._run:
                self._tags(structure, path, values)
            else:
                self._no_tags()
        else:
            self._flush()
        return self._build(structure, values)

    def _build(self, structure: Structure, values: dict[str, str]) -> str:
        fields = self.classes[structure.name].fields
        arguments = [values.get(field.name, field.default) for field in fields]
        while arguments and fields[len(arguments) - 1].name not in values:
            arguments.pop()
        return f"{structure.name}({', '.join(arguments)})"

    def _flush(self, *, behind: bool = True) -> None:
        """Read the pending run of fixed fields with one call, and go on behind it, or to its last
        byte."""
        if not self._run:
            return
        letters = "".join(letter for _, letter, _ in self._run)
        targets = ", ".join(target for target, _, _ in self._run)
        size = sum(size for _, _, size in self._run) - (not behind)
        self._run = []
        if letters == "B":
            self.code.line(f"{targets} = buffer[position]")
        else:
            comma = "" if "," in targets else ","
            self.code.line(f"{targets}{comma} = {self.code.unpack(letters)}(buffer, position)")
        if size:
            self.code.line(f"position += {size}")

    def _length(self, target: str, kind: str, flexible: bool) -> None:
        if not flexible:
            self._run.append((target, *LENGTH.get(kind, ("i", 4))))
            self._flush()
            return
        self._run.append((target, "B", 1))
        self._flush()
        with self.code.block(f"if {target} > 127:"):
            self.code.line(f"{target}, position = read_uvarint(buffer, position - 1)")
        self.code.line(f"{target} -= 1")

    def _compact_size(self, kind: str) -> None:
        """The size and one more; `position` is then that of its last byte."""
        self._run.append(("size", "B", 1))
        self._flush(behind=False)
        with self.code.block("if size > 127:"):
            if kind != "records":
                self.code.line("size, position = read_uvarint(buffer, position)")
                self.code.line("position -= 1")
                return
            # That of many batches, for which no call is worth it.
            self.code.line("high = buffer[position + 1]")
            with self.code.block("if high < 128:"):
                self.code.line("size = size & 127 | high << 7")
                self.code.line("position += 1")
            with self.code.block("else:"):
                self.code.line("size, position = read_uvarint(buffer, position)")
                self.code.line("position -= 1")

    def _field(self, field: Field, flexible: bool, path: str) -> str:
        target = self.code.name(path, field.name)
        if field.array:
            self._array(field, flexible, target)
        elif field.kind == "structure":
            assert field.structure is not None
            if field.nullable:
                self._nullable_structure(field.structure, target)
                return target
            self._flush()
            built = self._structure(field.structure, target)
            self.code.line(f"{target} = {built}")
        elif field.kind in FIXED:
            self._run.append((target, *FIXED[field.kind]))
        else:
            self._variable(field, flexible, target)
        return target

    def _nullable_structure(self, structure: Structure, target: str) -> None:
        """A byte before it says whether it is there."""
        self._run.append(("size", "b", 1))
        self._flush()
        self.code.line(f"{target}: {structure.name} | None = None")
        with self.code.block("if size >= 0:"):
            built = self._structure(structure, target)
            self.code.line(f"{target} = {built}")

    def _null(self, field: Field, length: str, flexible: bool, target: str) -> None:
        """The branch of a negative length; the caller continues with `else`."""
        label = field.name
        with self.code.block(f"if {length} < 0:"):
            if not field.nullable:
                self.code.line(f'raise Malformed("{label} is null")')
            else:
                if not flexible:
                    with self.code.block(f"if {length} != -1:"):
                        self.code.line(f'raise Malformed("{label} has a negative length")')
                self.code.line(f"{target} = None")

    def _variable(self, field: Field, flexible: bool, target: str) -> None:
        start = "position + 1 " if flexible else "position"
        space = " " if flexible else ""
        inner = {"string": "str", "bytes": "bytes", "records": "memoryview"}[field.kind]
        expression = {
            "string": f'str(buffer[{start}:{space}end], "utf-8")',
            "bytes": f"bytes(buffer[{start}:{space}end])",
            "records": f"view[{start}:{space}end]",
        }[field.kind]
        if flexible:
            self._compact_size(field.kind)
        else:
            self._length("size", field.kind, flexible)
        if field.nullable:
            self.code.line(f"{target}: {inner} | None")
        if flexible:
            with self.code.block("if not size:"):
                if not field.nullable:
                    self.code.line(f'raise Malformed("{field.name} is null")')
                else:
                    self.code.line(f"{target} = None")
                    self.code.line("position += 1")
        else:
            self._null(field, "size", flexible, target)
        with self.code.block("else:"):
            self.code.line("end = position + size")
            self.code.line(f"{target} = {expression}")
            self.code.line("position = end")

    def _array(self, field: Field, flexible: bool, target: str) -> None:
        count = self.code.name(target, "count")
        self._length(count, "array", flexible)
        if field.structure is not None:
            inner, size_min = field.structure.name, field.structure.wire_size_min()
        else:
            inner = {"string": "str", "uuid": "bytes", "bool": "bool", "float64": "float"}.get(
                field.kind, "int"
            )
            size_min = self._element_size_min(field, flexible)
        self.code.line(f"{target}: list[{inner}]{' | None' if field.nullable else ''}")
        self._null(field, count, flexible, target)
        # If one does not fit, that is found as it is read.
        room = f"{count} > room or " if _is_counted(field) else ""
        with self.code.block(
            f"elif {room}{count} > 1 and {count} * {size_min} > limit - position:"
        ):
            self.code.line(f'raise Malformed(f"{field.name} cannot have {{{count}}} elements")')
        with self.code.block("else:"):
            if field.structure is None and field.kind in FIXED:
                letter, size = FIXED[field.kind]
                assert len(letter) == 1, f"{target}: arrays of ids are not in any served message"
                self.code.line(
                    f'{target} = list(unpack_from(f">{{{count}}}{letter}", buffer, position))'
                )
                self.code.line(f"position += {count} * {size}")
                return
            self.code.line(f"room -= {count}")
            self.code.line(f"{target} = []")
            with self.code.block(f"while {count}:"):
                self.code.line(f"{count} -= 1")
                if field.structure is not None:
                    built = self._structure(field.structure, target)
                else:
                    built = self.code.name(target, "element")
                    element = Field(
                        field.name, field.kind, False, False, None, None, None, field.kio_name
                    )
                    self._variable(element, flexible, built)
                self.code.line(f"{target}.append({built})")

    @staticmethod
    def _element_size_min(field: Field, flexible: bool) -> int:
        element = Field(field.name, field.kind, False, False, None, None, None, field.kio_name)
        return field_size_min(element, flexible)

    def _no_tags(self) -> None:
        """None is known here, and hardly any is sent."""
        with self.code.block("if buffer[position]:"):
            self.code.line("position = skip_tags(buffer, position)")
        with self.code.block("else:"):
            self.code.line("position += 1")

    def _tags(self, structure: Structure, path: str, values: dict[str, str]) -> None:
        counted = self.code.name(path, "tag_count")
        self._run.append((counted, "B", 1))
        self._flush()
        defaults = {field.name: field for field in self.classes[structure.name].fields}
        for field in structure.tagged:
            target = values[field.name] = self.code.name(path, field.name)
            merged = defaults[field.name]
            self.code.line(f"{target}: {merged.python_type} = {merged.default}")
        with self.code.block(f"if {counted}:"):
            if not structure.tagged:
                self.code.line("position = skip_tags(buffer, position - 1)")
                return
            tag, tag_end = self.code.name(path, "tag"), self.code.name(path, "tag_end")
            self.code.line(f"{counted}, position = read_uvarint(buffer, position - 1)")
            with self.code.block(f"for _ in range({counted}):"):
                self.code.line(f"{tag}, position = read_uvarint(buffer, position)")
                self.code.line("size, position = read_uvarint(buffer, position)")
                self.code.line(f"{tag_end} = position + size")
                with self.code.block(f"if {tag_end} > limit:"):
                    self.code.line('raise Malformed("a tagged field exceeds the message")')
                for index, field in enumerate(structure.tagged):
                    with self.code.block(f"{'el' if index else ''}if {tag} == {field.tag}:"):
                        value = self._field(field, True, path)
                        self._flush()
                        self.code.line(f"{values[field.name]} = {value}")
                with self.code.block("else:"):
                    self.code.line(f"position = {tag_end}")
                with self.code.block(f"if position != {tag_end}:"):
                    self.code.line('raise Malformed("a tagged field has another size than said")')


def _is_counted(field: Field) -> bool:
    """Whether each element becomes an object, so that many short ones outgrow the message."""
    return field.array and field.kind not in FIXED


def _all_fields(structure: Structure) -> Iterator[Field]:
    return (field for inner in nested(structure) for field in inner.fields)
