"""The journal in the files of a folder."""
