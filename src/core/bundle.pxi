# Bundle: calls that take effect together or not at all.


@cython.final
cdef class Bundle(Call):
    """Acknowledgements, messages and statements of the user that are one transaction.

    One ack with messages shares a request with other calls: its messages are written only where the ack was not
    lost.  With statements, or with several acks, it goes in a request of its own, which fails as a whole.
    """

    cdef readonly list acks
    cdef readonly list publishes
    cdef readonly list statements
    cdef readonly bint alone
    cdef readonly Py_ssize_t size
    cdef set groups

    def __cinit__(self):
        self.kind = IS_BUNDLE

    def __init__(self, list acks not None, list publishes not None, list statements not None):
        cdef Settle ack
        cdef Publish publish
        self.acks = acks
        self.publishes = publishes
        self.statements = statements
        self.alone = bool(statements) or len(acks) > 1
        self.groups = set()
        for ack in acks:
            ack.bundled = True
            self.groups.add(ack.lease.group_id)
            self.size += ack._size()
        for publish in publishes:
            publish.bundled = True
            if acks and not self.alone:
                publish.tied = acks[0]
            self.groups.add(publish.group)
            self.size += publish.size

    def __len__(self):
        return len(self.acks) + len(self.publishes)

    def until(self, double deadline):
        """Set the deadline of all its calls."""
        cdef Call call
        self.deadline = deadline
        for call in self.acks + self.publishes:
            call.deadline = deadline

    cdef Call _lead(self):
        return self.acks[0] if self.acks else self.publishes[0]

    cdef bint _gone(self) except -1:
        return self._lead()._gone()

    cdef int _fail(self, object error) except -1:
        cdef Call call
        for call in self.acks + self.publishes:
            call._fail(_copy(error))
        return 0
