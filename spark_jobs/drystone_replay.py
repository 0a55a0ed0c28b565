"""spark-submit entry point of the `replay` job; see drystone.spark.jobs."""

from drystone.spark.jobs import main

if __name__ == "__main__":
    main("replay")
