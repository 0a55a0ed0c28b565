"""Rows from Kafka: chains of create-only plans, one for each partition of a topic; what is due; what a task does."""
