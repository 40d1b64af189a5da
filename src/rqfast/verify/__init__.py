"""Whether a database is sound.

run.py          all of it, one after the other
bookkeeping.py  what is derived (group rows, heads, counters) is looked at and made anew; checks.py: the checks
nodes.py        the nodes of a cluster, brought to one applied index; compare.py: their tables, row by row
found.py        what was found
"""
