"""Jobs on Spark: the only importer of pyspark."""
