"""Record batches in Kafka's format v2: their header, their records, their markers. Pure."""
