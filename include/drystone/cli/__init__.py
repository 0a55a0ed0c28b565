"""The terminal: `drystone <verb>`. Tables for people, `--json` for programs, exit codes that mean something.

A verb's module is imported when the verb is asked for, so that none pays for another's libraries.
"""

from drystone.cli.app import main

__all__ = ["main"]
