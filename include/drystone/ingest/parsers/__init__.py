"""Messages to rows: the protocol of parsers, and those that come with Drystone."""
