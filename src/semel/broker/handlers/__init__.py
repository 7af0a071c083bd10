"""One module per API, named as its messages; each opens with its versions and behaviour."""
