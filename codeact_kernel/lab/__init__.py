"""The face for notebooks: the host behind `%agent`.

Comes in: what the magic in a person's kernel asks. Goes out: agents at work, and what the notebook shows of them, as
cells for a page that can show cells, as HTML and as text for all others.
"""
