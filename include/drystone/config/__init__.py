"""The configuration of streams: model, loading, and what a live stream refuses to change."""
