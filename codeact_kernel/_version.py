"""The version, where both processes can read it without loading anything else."""

__version__ = "0.1.0"
