# Operating calls: what an operator does to a queue.  Each goes in a batch of its own.

# The statements of each, which have their parameters from one list: see sql/operate.sql.
OPERATIONS = {
    "pause": ("pause_group",),
    "pause_queue": ("pause_queue",),
    "resume": ("resume_group", "pick_group", "operate_ready", "operate_drain"),
    "resume_queue": ("resume_queue",),
    "release": ("release_count", "release", "operate_ready"),
    "delete": ("delete_count", "delete", "operate_ready", "operate_drain"),
    "purge": ("purge_group_count", "purge_group_last", "purge_group", "purge_group_end", "operate_ready", "operate_drain"),
    "purge_queue": ("purge_queue_step", "purge_queue_count", "purge_queue", "operate_ready", "operate_drain"),
    "redrive": ("redrive_pick_all", "redrive_insert", "redrive_groups", "redrive_ready", "redrive_delete"),
    "redrive_group": ("redrive_pick_group", "redrive_insert", "redrive_groups", "redrive_ready", "redrive_delete"),
    "redrive_seqs": ("redrive_pick_seqs", "redrive_insert", "redrive_groups", "redrive_ready", "redrive_delete"),
    "drop": ("drop_count", "drop"),
}

# The most messages that one commit takes away or brings back: more would hold up all that wait behind it.
cdef enum:
    STEP = 2000


@cython.final
cdef class Operate(Call):
    """An operating call: one of `OPERATIONS`, on a group or on messages named by their seqs, or on the whole queue.

    One that may find many messages goes in steps.  Other calls may come between two steps, operating calls do not.
    `answer` makes what the caller gets of the number of messages; `step` is the most of them in one commit.
    """

    cdef readonly str operation
    cdef readonly str group
    cdef readonly list seqs
    cdef readonly object answer
    cdef readonly object limit
    cdef readonly long long done
    cdef readonly bint goes_on
    cdef public Py_ssize_t step
    cdef str group_list
    cdef Py_ssize_t at
    cdef object after
    cdef object bound

    def __init__(self, str operation not None, answer, str group=None, list seqs=None, limit=None):
        self.operation = operation
        self.answer = answer
        self.group = group
        self.group_list = None if group is None else _json([group])
        self.seqs = seqs
        self.limit = limit
        self.after = -(1 << 63)
        self.step = STEP

    cdef list _parameters(self, str lane):
        # Of the next step: lane, group, seqs, bounds, the most rows.
        cdef list chunk
        left = self.step if self.limit is None else min(self.step, self.limit - self.done)
        if self.seqs is None:
            return [lane, self.group_list, None, self.after, self.bound, left]
        if self.operation == "delete":
            return [lane, None, self.seqs[0], None, None, 1]
        chunk = self.seqs[self.at:self.at + self.step]
        return [lane, self.group_list, _json(chunk), min(chunk, default=0), max(chunk, default=0), left]

    cdef int _take_in(self, list row) except -1:
        # What a step did: n, base, done, upto, ..
        self.done += 0 if row[2] is None else row[2]
        self.bound = row[1]
        self.after = row[3]
        self.at += self.step
        self.goes_on = self.at < len(self.seqs) if self.seqs is not None else self.after is not None
        if self.limit is not None and self.done >= self.limit:
            self.goes_on = False
        if not self.goes_on:
            self._succeed(self.answer(self.done))
        return 0

    cdef int _fail(self, object error) except -1:
        self.goes_on = False
        if self.done and isinstance(error, (Unavailable, Closed, OutcomeUnknown)):
            made = OutcomeUnknown(
                f"{self.done} messages were dealt with, then this call could not go on; make it again for the rest: {error}")
            made.__cause__ = error
            error = made
        return Call._fail(self, error)


cdef int _check_operated(list row) except -1:
    if type(row[1]) not in (int, float, type(None)):
        raise GarbledReply("the bound of an operating call is no number")
    for value in row[2:4]:
        if type(value) not in (int, type(None)):
            raise GarbledReply("the count of an operating call is no number")
    return 0
