"""Pages for people. The only importer of fastapi; whoever mounts them says who may look."""
