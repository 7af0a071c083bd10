"""A small client for any cluster that speaks Kafka's protocol, on asyncio."""
