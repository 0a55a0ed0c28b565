"""Secor's own file formats and layout, for those who read them. Pure: messages in, bytes out, no bucket."""
