"""Consumer groups in Kafka's classic protocol: members, generations and offsets. Pure."""
