"""The broker: connections, a handler for each API, and what runs beside them."""
