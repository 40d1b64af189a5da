# Bundle: calls that take effect together or not at all.


@cython.final
cdef class Verdict:
    """What a bundle on a table of the user's own tells its caller.

    Args:
        outcome: the statement that ends its request, which returns what that of others does, and one text more.
        again: reads the same after a lost reply.
        parameters: of both, after the lane.
        answer: makes of that text what the caller gets.
        lost: the error when its guard refused.
    """

    cdef readonly str outcome
    cdef readonly str again
    cdef readonly list parameters
    cdef readonly object answer
    cdef readonly object lost

    def __init__(self, str outcome not None, str again not None, list parameters not None, answer, lost=None):
        self.outcome = outcome
        self.again = again
        self.parameters = parameters
        self.answer = answer
        self.lost = lost


@cython.final
cdef class Bundle(Call):
    """Acknowledgements, messages and statements of the user that are one transaction.

    One ack with messages shares a request with other calls: its messages are written only where the ack was not
    lost.  With statements, or with several acks, it goes in a request of its own, which fails as a whole.

    With a `verdict` it is one call on a table of the user's own: it has no acks, and each of `own` is a (name, text,
    parameters) that goes before the messages and has the lane for its first parameter.
    """

    cdef readonly list acks
    cdef readonly list publishes
    cdef readonly list statements
    cdef readonly list own
    cdef readonly Verdict verdict
    cdef readonly bint alone
    cdef readonly Py_ssize_t size
    cdef set groups

    def __cinit__(self):
        self.kind = IS_BUNDLE

    def __init__(self, list acks not None, list publishes not None, list statements not None, list own=None,
                 Verdict verdict=None):
        cdef Settle ack
        cdef Publish publish
        self.acks = acks
        self.publishes = publishes
        self.statements = statements
        self.own = own
        self.verdict = verdict
        self.alone = bool(statements) or len(acks) > 1 or verdict is not None
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
        return Call._gone(self) if self.verdict is not None else self._lead()._gone()

    cdef int _told(self, object text) except -1:
        # Its request took effect.
        try:
            answer = self.verdict.answer(text)
        except Exception as error:
            return Call._fail(self, error)
        return Call._succeed(self, answer)

    cdef int _fail(self, object error) except -1:
        cdef Call call
        if self.verdict is not None:
            return Call._fail(self, error)
        for call in self.acks + self.publishes:
            call._fail(_copy(error))
        return 0
