"""What a block is: its metadata, marks and states. Pure."""
