"""The demo: messages through the queue with a worker killed on the way, and a check of what the workers wrote down.

    source.py    a file of JSON lines, the packaged flights by default
    publish.py   the lines into the queue
    journal.py   what a worker writes down, and how it is read
    work.py      a worker: a process of its own
    crew.py      starts the workers, kills one, stops the others
    check.py     from what was written down to what is wrong
    run.py       all of it, one after the other

It has no output of its own: who runs it passes a `Watcher`.
"""
