"""Small programs that use Semel through a real Kafka client; each also runs in the tests."""
