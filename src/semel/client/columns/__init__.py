"""Record batches to and from Arrow columns, without a Python object per record.

Needs pyarrow and numpy: the extra `arrow`.
"""
