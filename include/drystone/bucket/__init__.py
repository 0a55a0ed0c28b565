"""Where bytes live: one small protocol over S3, a local folder and memory."""

from drystone.bucket.local import LocalBucket
from drystone.bucket.memory import MemoryBucket
from drystone.bucket.open import open_bucket
from drystone.bucket.protocol import Bucket, ObjectInfo

__all__ = ["Bucket", "LocalBucket", "MemoryBucket", "ObjectInfo", "open_bucket"]
