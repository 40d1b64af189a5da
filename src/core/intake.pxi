# Intake: the way in for the calls of an async transport, and a short way for plain ones.

from cpython.object cimport PyObject_Call
from libc.math cimport INFINITY

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()

# Forks of this process and its parents: in a child nothing runs on, whatever its memory says.
cdef long long _forks = 0


def forked():
    """This is a child process now."""
    global _forks
    _forks += 1


@cython.final
cdef class Intake:
    """Takes in calls, and has a batch filled at the end of the loop's turn.

    A plain publish, acknowledgement or claim is checked, made and taken in here in one go.  Whatever is unusual about
    it, the answer is None, and the long way finds out what it is.

    Args:
        enter: checks that the caller may use the transport, and returns what makes a future, and its keywords.
        wake: has `rested` called, and a batch filled, when the loop's turn ends.
        running: under which key a thread's state holds what it runs.  It is compared with what was there when
            `enter` was asked last, and nothing more: a loop that stops, or another one, puts something else there.
        at_once: whether a claim of this `min_priority` goes out without a look.
    """

    cdef Batcher batcher
    cdef object enter
    cdef object wake
    cdef object running
    cdef object at_once
    cdef object entered
    cdef long long forks
    cdef object make_future
    cdef dict keywords
    cdef bint due
    cdef public object encode
    cdef public object on_lost
    cdef public object give_back

    def __init__(self, Batcher batcher not None, enter, wake, str running not None, at_once):
        self.batcher = batcher
        self.enter = enter
        self.wake = wake
        self.running = running
        self.at_once = at_once

    def shut(self):
        """Let `enter` be asked at the next call."""
        self.entered = None

    def start(self, Call call not None):
        """Take in a call; it leaves at the end of this turn of the loop at the latest, if a lane is free."""
        self._start(call)

    def start_all(self, calls):
        """Take in calls, one after another."""
        for call in calls:
            self._start(call)

    def rested(self):
        """The turn has ended: the next call wakes again."""
        self.due = False

    cdef int _start(self, Call call) except -1:
        self.batcher._add(call)
        if not self.due:
            self.due = True
            self.wake()
        return 0

    cdef object _future(self):
        cdef PyObject* state = PyThreadState_GetDict()
        cdef PyObject* found = NULL if state == NULL else PyDict_GetItemWithError(<object>state, self.running)
        if found == NULL or self.entered is None or found != <PyObject*>self.entered or self.forks != _forks:
            self.make_future, self.keywords = self.enter()
            self.entered = None if found == NULL else <object>found
            self.forks = _forks
        return PyObject_Call(self.make_future, (), self.keywords)

    def publish(self, group_id, event, priority, delay, rank, headers, dedup_id):
        """Publish a message; returns the future of its seq."""
        cdef Publish call = plain_publish(group_id, event, priority, delay, rank, headers, dedup_id, self.encode)
        if call is None:
            return None
        future = self._future()
        call.future = future
        self._start(call)
        return future

    def ack(self, lease):
        """Acknowledge a lease; returns the future of None."""
        if type(lease) is not Lease:
            return None
        call = _acknowledgement(<Lease>lease, self.on_lost)
        future = self._future()
        call.future = future
        self._start(call)
        return future

    def claim(self, worker_id, visibility, min_priority, wait, lease):
        """Claim one message, without waiting for one, and acknowledge `lease` unless it is None."""
        cdef Claim call
        cdef Settle settle
        cdef double seconds
        cdef int level = 0 if min_priority is _ZERO else _small(min_priority, 4)
        if level < 0 or type(worker_id) is not str or wait is not _ZERO:
            return None
        if type(visibility) is float:
            seconds = visibility
        else:
            seconds = _small(visibility, 1 << 30)
        if not 0 < seconds < INFINITY:
            return None
        if lease is None:
            if not self.batcher._has_waiting() and not self.at_once(level):
                return None
        elif type(lease) is not Lease:
            return None
        check_id(worker_id, "worker_id")
        call = Claim.__new__(Claim)
        call.worker = <str>worker_id
        call.visibility = seconds
        call.min_priority = level
        call.limit = 1
        future = self._future()
        claimed = _claim_future(future, self.give_back)
        call.future = future
        call.kept = claimed
        if lease is not None:
            settle = _acknowledgement(<Lease>lease, self.on_lost)
            settle.then = call
            call.tied = settle
        self._start(call)
        return claimed


cdef Settle _acknowledgement(Lease lease, object on_lost):
    cdef Settle call = Settle.__new__(Settle)
    call.lease = lease
    call.op = OP_ACK
    call.argument = 0.0
    call.on_lost = on_lost
    return call
