"""Checkpoints of the namespace: what of it can be pickled, in files, and the same again in a fresh kernel.

Comes in: the host's wishes. Goes out: files named by what is in them, what lies where, and why which name is missing;
and the other way round, names bound again. `taking` takes them in a
`copying` of the process, `writing` runs in that, `pickling` says
what travels and what does not, `restoring` reads.
"""
