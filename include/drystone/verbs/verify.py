"""The verify verb: whether everything is there, and is what was written; the workers read the blocks."""

from __future__ import annotations

from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.verify import verify_stream
from drystone.errors import DamagedStreamError
from drystone.jobs import VerifyRequest


def run(job: Job, request: VerifyRequest) -> Outcome:
    """Check; the job fails, once all was checked, if rows cannot be read or are not what was written."""
    found = verify_stream(
        job.bucket,
        job.stream,
        job.clock(),
        deep=request.deep,
        only=request.block,
        tracker=job.tracker,
        workers=job.workers,
    )
    damage = [finding for finding in found.findings if finding.severity == "damage"]
    report = [f"* **{each.severity}** {each.block} {each.file}: {each.what} {each.to_do}" for each in found.findings]
    verdict = None
    if damage:
        what = f"stream {job.stream}: {len(damage)} findings of damage, the first: {damage[0].what}"
        verdict = DamagedStreamError(what, damage[0].to_do)
    return Outcome(
        summary={
            "blocks_checked": found.blocks,
            "files": found.files,
            "bytes": found.bytes,
            "rows": found.rows,
            "damage": len(damage),
            "problems": len(found.findings) - len(damage),
        },
        report=[f"{found.blocks:,} blocks of {found.rows:,} rows: {len(found.findings)} findings.", *report],
        verdict=verdict,
    )
