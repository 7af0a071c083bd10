"""Files of properties, as Java reads them."""

from semel.properties import parse_properties

TEXT = r"""
# a comment = of its own
! and another
plain=value
spaced  =  with blanks behind_
colon:value
blank value of it
empty=
alone
continued = one \
            two \
            three
# not = continued \
backslash = C:\\dir\\
escaped\ name\=x = tab\tnew\nline \u00e4 \q
security.protocol=SASL_SSL
sasl.jaas.config=org.Module required \
  username="ana" \
  password="tu\\"lip";
last=without an end\
"""


def test_names_and_values_are_read_as_java_reads_them() -> None:
    assert parse_properties(TEXT) == {
        "plain": "value",
        "spaced": "with blanks behind_",
        "colon": "value",
        "blank": "value of it",
        "empty": "",
        "alone": "",
        "continued": "one two three",
        "backslash": "C:\\dir\\",
        "escaped name=x": "tab\tnew\nline \u00e4 q",
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": 'org.Module required username="ana" password="tu\\"lip";',
        "last": "without an end",
    }
