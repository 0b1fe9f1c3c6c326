"""What runs in the kernel's process.

Comes in: Jupyter messages. Goes out: Jupyter messages. Needs the standard library and ipykernel only, and
imports nothing of the host, so that it runs in any interpreter that the user chooses.
"""
