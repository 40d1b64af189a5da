# Lease: what a claim gives.

import dataclasses as _dataclasses

cdef extern from "Python.h":
    void PyObject_GC_Track(object)
    void PyObject_GC_UnTrack(object)
    bint PyObject_GC_IsTracked(object)


def _no_clock():
    return 0.0


cdef object _default_clock = _no_clock


def set_default_clock(clock):
    """Set what tells the time to leases that no transport of this process made (pickled or built by hand)."""
    global _default_clock
    _default_clock = clock


def _old_fields():
    # The dataclass that Lease replaces, so that dataclasses.replace(), fields() and asdict() go on working.
    made = _dataclasses.make_dataclass("Lease", [
        ("seq", int), ("group_id", str), ("event", object), ("token", str, _dataclasses.field(default=""))])
    return made.__dataclass_fields__


@cython.final
cdef class Term:
    """When the lease of a run ends: all its leases share one, since they are extended together."""

    cdef double ends_at


@cython.final
@cython.freelist(2048)
cdef class Lease:
    """A message in work: what it is, and the token that owns it until `expires_at`.

    Made by `claim`; by hand (`Lease(seq, group_id, event, token)`) in tests, or to settle in another process what
    this one claimed.  An empty token owns nothing.  Equal when seq, group, event and token are equal.
    """

    __dataclass_fields__ = _old_fields()
    __class_getitem__ = classmethod(GenericAlias)
    __match_args__ = ("seq", "group_id", "event", "token")

    cdef readonly long long seq
    cdef readonly str group_id
    cdef readonly str token
    cdef readonly int attempts
    cdef readonly int priority
    cdef readonly long long rank
    cdef readonly long long fence
    cdef double _expires_at
    cdef readonly object published_at
    cdef object _raw
    cdef object _headers
    cdef object _event
    cdef bint _decoded
    cdef object _decode
    cdef object _clock
    cdef str _worker
    # Of a run: the turn that ends its token, and what its leases share.
    cdef long long _turn
    cdef Term _term

    def __init__(self, seq, group_id, event, token=""):
        if isinstance(seq, bool) or not isinstance(seq, int):
            raise TypeError(f"seq is an int, not {type(seq).__name__}")
        if not isinstance(group_id, str) or not isinstance(token, str):
            raise TypeError("group_id and token are str")
        if not -(1 << 63) <= seq < (1 << 63):
            raise InvalidMessage(f"seq={seq} does not fit in 64 bits", "seq")
        _utf8_size(group_id, "group_id")
        _utf8_size(token, "token")
        self.seq = seq
        self.group_id = group_id
        self.token = token
        self._turn = _turn_of(token)
        self._event = event
        self._decoded = True

    @property
    def expires_at(self):
        """When it ends, on the queue's clock (float); of a run, all its leases end together."""
        return self._ends()

    cdef double _ends(self):
        return self._expires_at if self._term is None else self._term.ends_at

    cdef int _extend(self, double ends_at) except -1:
        self._expires_at = ends_at
        if self._term is not None:
            self._term.ends_at = ends_at
        return 0

    @property
    def event(self):
        """The event, decoded at the first look.  Raises what the decoder raises, and leaves the lease as it was."""
        if not self._decoded:
            self._event = self._decode(self._raw)
            self._decoded = True
            _track(self)
        return self._event

    @property
    def raw(self):
        """The stored text, byte for byte what was encoded (str)."""
        if self._raw is None:
            self._raw = _dumps(self._event).decode()
        return self._raw

    @property
    def headers(self):
        """The headers of the message (dict, empty when it has none)."""
        if type(self._headers) is str:
            self._headers = _loads(self._headers)
        elif self._headers is None:
            self._headers = {}
        return self._headers

    @property
    def worker_id(self):
        """Who claimed it (str): the caller's `worker_id`; of a lease made by hand, the name in its token."""
        if self._worker is not None:
            return self._worker
        return holder_of(self.token)

    def remaining(self):
        """Seconds left until the lease ends, by this process's own clock (float, 0.0 when it has ended)."""
        clock = _default_clock if self._clock is None else self._clock
        return max(0.0, self._ends() - <double>clock())

    def __eq__(self, other):
        if type(other) is not Lease:
            return NotImplemented
        cdef Lease that = <Lease>other
        if self.seq != that.seq or self.token != that.token or self.group_id != that.group_id:
            return False
        if self._raw is not None and that._raw is not None:
            return self._raw == that._raw
        return self.event == that.event

    def __hash__(self):
        return hash((self.seq, self.group_id, self.token))

    def __repr__(self):
        # Neither what it holds nor its token, by which anybody could settle it.
        return (f"Lease(seq={self.seq}, group_id={self.group_id!r}, attempts={self.attempts}, "
                f"expires_at={self._ends()!r})")

    def __copy__(self):
        cdef Lease copy = Lease.__new__(Lease)
        _fill_lease(copy, self._state())
        copy._decode = self._decode
        copy._clock = self._clock
        copy._term = self._term
        return copy

    def __deepcopy__(self, memo):
        cdef Lease copy = self.__copy__()
        if self._decoded:
            import copy as copy_module
            copy._event = copy_module.deepcopy(self._event, memo)
        if type(self._headers) is dict:
            copy._headers = dict(self._headers)
        return copy

    def __replace__(self, **changes):
        """A new lease with other fields, for copy.replace()."""
        fields = {"seq": self.seq, "group_id": self.group_id, "token": self.token}
        if "event" not in changes:
            fields["event"] = self.event
        return Lease(**(fields | changes))

    cdef tuple _state(self):
        return (self.seq, self.group_id, self.token, self.attempts, self.priority, self.rank, self.fence,
                self._ends(), self.published_at, self._raw, self._headers, self._event, self._decoded, self._worker)

    def __reduce__(self):
        # A decoder need not be picklable; what it makes is, as in the dataclass that this replaces.
        if not self._decoded and self._decode is not _loads:
            self.event
        return _lease_from_state, (self._state(),)


def holder_of(str token not None):
    """The name in a token (str): of the worker that holds the message."""
    name = token[1:] if token.startswith("~") else token
    return name.rpartition(":")[0]


cdef long long _turn_of(str token) except -1:
    # What stands behind the "+" at the end of a run's token (see queue.sql); 0: no run.
    name, plus, turn = token.rpartition("+")
    if not plus or not (turn.isascii() and turn.isdigit()) or len(turn) > 18:
        return 0
    return int(turn)


def _lease_from_state(state):
    cdef Lease lease = Lease.__new__(Lease)
    _fill_lease(lease, state)
    lease._decode = _loads
    return lease


cdef void _fill_lease(Lease lease, tuple state) except *:
    (lease.seq, lease.group_id, lease.token, lease.attempts, lease.priority, lease.rank, lease.fence,
     lease._expires_at, lease.published_at, lease._raw, lease._headers, lease._event, lease._decoded,
     lease._worker) = state
    lease._turn = _turn_of(lease.token)


cdef Lease _lease_from_row(list row, str token, object decode, object clock):
    # seq, group_id, event, attempts, rank, headers, published_at, lock_expiry, priority, turn
    cdef Lease lease = Lease.__new__(Lease)
    lease.seq = row[0]
    lease.group_id = row[1]
    lease._raw = row[2]
    lease.attempts = row[3]
    lease.rank = row[4]
    lease._headers = row[5]
    lease.published_at = None if row[6] is None else float(row[6])
    lease._expires_at = row[7]
    lease.priority = 0 if row[8] is None else row[8]
    lease.fence = 0 if row[9] is None else row[9]
    lease.token = token
    lease._decode = decode
    lease._clock = clock
    # Nothing in it yet that could lead back to it: the garbage collector need not look, at a thousand of them at once.
    PyObject_GC_UnTrack(lease)
    return lease


cdef list _run_from_rows(list rows, str token, object decode, object clock):
    # All of one group, so of one turn.
    cdef Term term = Term.__new__(Term)
    cdef Lease lease
    cdef list leases
    if rows:
        token = f"{token}{(<list>rows[0])[9]}"
    leases = [_lease_from_row(row, token, decode, clock) for row in rows]
    for lease in leases:
        lease._turn = lease.fence
        lease._term = term
    if leases:
        term.ends_at = lease._expires_at
    return leases


cdef int _track(Lease lease) except -1:
    if not PyObject_GC_IsTracked(lease):
        PyObject_GC_Track(lease)
    return 0
