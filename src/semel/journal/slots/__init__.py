"""The journal in an object store, whose lanes other nodes can take."""
