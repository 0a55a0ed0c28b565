"""A backup stream's messages as files in Secor's layout: from blocks, each message in exactly one file."""
