"""What a lane keeps in its journal, for who has to know it before anything is changed there."""

from typing import Final

from semel.journal.file.formats import Contents
from semel.lane import frame, restoring

CONTENTS: Final = Contents(restoring.refuse_newer, frame.refuse_newer, frame.batches_of)
