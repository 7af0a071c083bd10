"""`semel log`: check, show and copy the files of a data folder, without asking a broker.

What reads them is imported when it is asked for: the other commands have no use for it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from semel.cli.numbers import whole_number
from semel.cli.output import complain, in_words, note, progress, say, say_json
from semel.errors import ConfigError, FolderInUse, NewerFormat, UnknownTopicOrPartition
from semel.spelling import noun

if TYPE_CHECKING:
    from semel.journal.file.check import Finding
    from semel.journal.file.salvaging import SalvagingDevice
    from semel.lane.dump import Shown

app = App(name="log", help="Check, show and back up the files of a data folder.")

DAMAGED = 1
IN_USE = 3
NOT_CHECKED = 4
"""Exit codes of a check, beside 0 and that of wrong usage, which a folder that is not there is."""

_ONE_OF: Mapping[str, str] = {
    "indexes": "index",
    "batches": "batch",
    "batches in volumes": "batch in volumes",
}
"""Where it takes more than the s away to name one."""

AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]


@app.command
def check(folder: Path, /, *, as_json: AsJson = False) -> int:
    """Verify every checksum in the data folder of a stopped broker, and change nothing.

    Each damaged place is shown with what it means: whether a start mends it, or which records are
    lost. The exit code is 0 if all is whole, 1 if something is damaged, 2 if there is no data
    folder, 3 if a broker is using it, and 4 if it cannot be checked: a newer version has written
    it, or files may not be read.
    """
    from semel.journal.file.lane_folders import lane_folder
    from semel.journal.file.salvaging import unused

    try:
        with ExitStack() as stack:
            devices = {"": stack.enter_context(unused(folder))}
            for number in range(1, _lane_count(folder)):
                each = lane_folder(folder, number)
                devices[f"{each.relative_to(folder)}/"] = stack.enter_context(unused(each))
            return _check(devices, as_json=as_json)
    except FolderInUse as error:
        complain(str(error), as_json=as_json)
        return IN_USE
    except (NewerFormat, OSError) as error:
        complain(in_words(error), as_json=as_json)
        return NOT_CHECKED


def _lane_count(folder: Path) -> int:
    """One also if the folder does not say it as it should, which a check tells of."""
    from semel.errors import CorruptJournal
    from semel.journal.file.lane_folders import lane_count

    try:
        return lane_count(folder)
    except CorruptJournal:
        return 1


def _check(devices: "Mapping[str, SalvagingDevice]", *, as_json: bool) -> int:
    """Of each lane, by where its folder lies in that of lane 0."""
    from semel.journal.file.check import Folder, lost_bytes
    from semel.journal.file.check import check as check_folder
    from semel.lane.check import LaneExaminer

    findings: list[Finding] = []
    counts: Counter[str] = Counter()
    for within, device in devices.items():
        examiner = LaneExaminer()
        found = Folder(device, examiner, partial(progress, "checked"))
        for each in chain(check_folder(found), lost_bytes(device)):
            finding = each._replace(file=f"{within}{each.file}")
            findings.append(finding)
            if not as_json:
                _say_finding(finding)
        counts.update({**found.counts, "batches": examiner.batch_count})
    damage_count = sum(finding.is_damage for finding in findings)
    if as_json:
        say_json(
            {
                "damaged": bool(damage_count),
                "counts": dict(counts),
                "findings": [finding._asdict() for finding in findings],
            }
        )
    else:
        checked = ", ".join(_counted(count, kind) for kind, count in counts.items())
        damaged = f"{damage_count} {noun(damage_count, 'place is', 'places are')} damaged"
        say(f"{damaged if damage_count else 'all is whole'}: {checked}")
    return DAMAGED if damage_count else 0


def _counted(count: int, kind: str) -> str:
    return f"{count:,} {noun(count, _ONE_OF.get(kind, kind.removesuffix('s')), kind)}"


@app.command
def dump(
    folder: Path,
    /,
    *,
    partition: Annotated[
        str | None,
        Parameter(name=["-p", "--partition"], help="Only the batches of this one, as orders-0."),
    ] = None,
    from_position: Annotated[
        int,
        Parameter(
            converter=whole_number,
            name=["--from"],
            help="Begin with the frame at this byte of the journal.",
        ),
    ] = 0,
    lane: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            help="Which lane of a folder that has several (default: 0; of a partition, all).",
        ),
    ] = None,
    records: Annotated[
        bool, Parameter(negative="", help="Show the records of each batch too.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the frames of a data folder, with the batches and facts in them.

    Of one partition those batches are shown first that lie in volumes, unless --from is given.

    A running broker does not mind. Bytes that are no frame are shown as a gap; `semel log check`
    says what they mean.
    """
    from semel.cli.frame_format import frame_as_json, frame_in_words

    if partition is not None and not re.fullmatch(r".+-\d+", partition):
        raise ConfigError(f"--partition {partition}: name it as orders-0")
    if partition is None or lane is not None:
        found = _frames(folder, lane or 0, from_position, partition)
    else:
        found = _frames_of(partition, folder, from_position)
    for shown in found:
        if as_json:
            say_json(frame_as_json(shown, records=records))
        else:
            for line in frame_in_words(shown, records=records):
                say(line)
    return 0


def _frames(
    folder: Path, lane: int, from_position: int, partition: str | None
) -> "Iterator[Shown]":
    from semel.journal.file.disk import FileDevice, require_data_folder
    from semel.journal.file.lane_folders import lane_folder
    from semel.lane.dump import dump as dump_folder

    count = _lane_count_to_show(folder)
    if not 0 <= lane < count:
        raise ConfigError(f"--lane {lane}: {folder} has {count} {noun(count, 'lane')}")
    device = FileDevice(lane_folder(folder, lane))
    try:
        require_data_folder(device)
        yield from dump_folder(device, from_position, partition)
    finally:
        device.stop()


def _frames_of(partition: str, folder: Path, from_position: int) -> "Iterator[Shown]":
    """In whichever lane it lies, which is told: each lane counts the bytes of its own journal."""
    count = _lane_count_to_show(folder)
    refusals: list[UnknownTopicOrPartition] = []
    for lane in range(count):
        is_told = count == 1
        try:
            for shown in _frames(folder, lane, from_position, partition):
                if not is_told:
                    note(f"what follows is of lane {lane}")
                    is_told = True
                yield shown
        except UnknownTopicOrPartition as error:
            refusals.append(error)
    if len(refusals) == count:
        raise refusals[0]


def _lane_count_to_show(folder: Path) -> int:
    from semel.journal.file.lane_folders import lane_count

    return lane_count(folder) if folder.is_dir() else 1


@app.command
def backup(folder: Path, target: Path, /, *, as_json: AsJson = False) -> int:
    """Copy a data folder into a new one, also while its broker runs.

    The copy holds all that was durable when it was begun, and every frame of it is checked. It
    can be served as it is, or copied to where it is needed; a broker takes it for another disk.
    A folder with several lanes is copied while no broker has it.
    """
    from semel.journal.file.backup import back_up
    from semel.lane.named_volumes import NamedVolumes
    from semel.volumes.binding import check_whole

    check_whole(folder)
    made = back_up(folder, target, NamedVolumes, partial(progress, "copied"))
    if as_json:
        say_json({"target": str(target), "end": made.end, "bytes": made.byte_count})
    else:
        say(f"{target} has all up to byte {made.end} of the journal")
    return 0


def _say_finding(finding: "Finding") -> None:
    place = finding.file if finding.byte is None else f"{finding.file}, byte {finding.byte}"
    say(f"{place}: {finding.what}" if place else finding.what)
    say(f"    {finding.meaning}")
