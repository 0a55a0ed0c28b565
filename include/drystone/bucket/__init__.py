"""Where bytes live: one small protocol over a local folder and memory."""
