"""The proof: a queue is driven hard by processes that are killed, and what each was told is checked against the rules.

    calls.py      what was called, with what, and what was told: the records that the checker takes
    journal.py    how processes write them down, and how that is read
    lives.py      from calls to the life of each message: its publishes, its leases, what became of each
    history.py    the checker: which rule of the queue was broken, and the calls that show it
    order.py      the rules of order
    shown.py      what a history has shown: lapses, take-overs, unknown outcomes and how each ended
    figures.py    rates over time, pauses

    publisher.py  a process that publishes           worker.py   a process that claims and settles
    recorder.py   makes a call and writes it down    breaks.py   clients that are broken on purpose
    process.py    what both share: how they begin and end
    crew.py       starts the processes, kills some   run.py      all of it, one after the other
    faults.py     what something else broke meanwhile
    report.py     the page about it

The checker and what it needs do no I/O.  Nothing here has output of its own: who runs a soak passes a `Watcher`.
"""
