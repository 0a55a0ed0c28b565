"""What holds for all tests."""

import logging

# Airflow, once a test has loaded it, logs whatever is at INFO. Spark's bridge says good-bye at that level when the
# interpreter ends, after pytest has closed the stream: a traceback below the line that sums up the tests.
logging.getLogger("py4j").setLevel(logging.WARNING)
