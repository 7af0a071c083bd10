"""Small programs that use Semel; each also runs in the tests.

Those on PySpark need the extra `spark`, and those that import confluent_kafka need confluent-kafka.
"""
