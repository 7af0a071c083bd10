"""What `from semel import *` brings, and what a plain import does without."""

import subprocess
import sys

LISTED = "sorted(name for name in globals() if not name.startswith('__'))"


def printed(program: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()


def test_a_star_brings_the_names_that_need_no_extra() -> None:
    # As where the extra arrow is not installed.
    without_arrow = "import sys; sys.modules['pyarrow'] = sys.modules['numpy'] = None; del sys"
    brought = printed(f"{without_arrow}\nfrom semel import *\nprint(*{LISTED})")
    assert {"Admin", "App", "Consumer", "Producer", "Record", "TopicPartition"} <= {*brought}
    assert not {"import_module", "TYPE_CHECKING", "Any"} & {*brought}


def test_a_plain_import_brings_no_client() -> None:
    brought = printed("import sys, semel; print(*(n for n in sys.modules if 'semel.' in n))")
    assert brought == []
