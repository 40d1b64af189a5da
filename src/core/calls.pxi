# The calls that meet in a batch.

cdef enum:
    OP_ACK = 0
    OP_NACK = 1
    OP_PARK = 2
    OP_DEFER = 3
    OP_EXTEND = 4
    OP_DEAD = 5
    OP_GIVE_BACK = 6

# What a call is; told by a number, since the question comes up several times for each call.
cdef enum:
    IS_PUBLISH
    IS_SETTLE
    IS_CLAIM
    IS_BUNDLE
    IS_OPERATE

ACK, NACK, PARK, DEFER, EXTEND, DEAD, GIVE_BACK = range(7)
cdef tuple _DOING = ("ack", "nack", "nack", "defer", "extend", "dead-letter", "give back")


cdef class Slot:
    """Where a thread's outcome is put: a future without a loop.

    In the core, because a batch that gives its callers their outcomes must not be interrupted half-way by a signal.
    """

    cdef bint _done
    cdef readonly object value
    cdef readonly object error

    def done(self):
        """Whether the outcome is there, or nobody wants it."""
        return self._done

    def set_result(self, value):
        """The call took effect."""
        self.value = value
        self._done = True

    def set_exception(self, error):
        """It did not."""
        self.error = error
        self._done = True

    def abandon(self):
        """Nobody waits any more."""
        self._done = True

    def leases(self):
        """What a claim put here (list)."""
        if isinstance(self.value, list):
            return self.value
        return [] if self.value is None else [self.value]

    def result(self):
        """The outcome, once done."""
        if self.error is not None:
            raise self.error
        return self.value


@cython.final
cdef class Relay(Slot):
    """A slot of a future that another thread completes: the outcome is put down, and the slot in the outbox.

    `wake`, if there is one, is called when the outbox was empty.
    """

    cdef readonly object future
    cdef object outbox
    cdef object wake

    def __init__(self, future, outbox, wake=None):
        self.future = future
        self.outbox = outbox
        self.wake = wake

    def set_result(self, value):
        """The call took effect."""
        self.value = value
        self._put()

    def set_exception(self, error):
        """It did not."""
        self.error = error
        self._put()

    cdef int _put(self) except -1:
        was_empty = self.wake is not None and not self.outbox
        self._done = True
        self.outbox.append(self)
        if was_empty:
            self.wake()
        return 0


cdef class LockSlot(Slot):
    """A slot that a thread waits for: `lock` is held until the outcome is there."""

    cdef readonly object lock

    def __init__(self, lock):
        self.lock = lock

    def set_result(self, value):
        """The call took effect."""
        self.value = value
        self._done = True
        self.lock.release()

    def set_exception(self, error):
        """It did not."""
        self.error = error
        self._done = True
        self.lock.release()


@cython.final
cdef class Many:
    """Collects the outcomes of calls that were made as one; its future is done when all are."""

    cdef readonly object future
    cdef readonly list results
    cdef Py_ssize_t left

    def __init__(self, future, Py_ssize_t count):
        self.future = future
        self.results = [None] * count
        self.left = count

    cdef int put(self, Py_ssize_t pos, object value) except -1:
        self.results[pos] = value
        self.left -= 1
        if self.left == 0 and not self.future.done():
            self.future.set_result(self.results)
        return 0


@cython.final
@cython.freelist(2048)
cdef class Pin:
    """A group with calls waiting or in flight: all of them go through one lane, so that their order holds."""

    cdef str group
    cdef int lane
    cdef Py_ssize_t count
    cdef Py_ssize_t shared
    cdef long long serial
    cdef int rank
    cdef bint closed
    # Of the settlement that went last, no acknowledgement (a reference to it would be a circle); -1: there is none.
    cdef int other_op
    cdef str other_token
    cdef PyObject* other_many


# Not followed by the garbage collector, which would look at all calls again and again while they wait: they are gone
# when their callers are told, and make no circle of their own (a claim and its `ack=` part when it is over).
@cython.no_gc
cdef class Call:
    """What one caller asked for, where its outcome goes, and until when it may take.

    `future` None: nobody waits (a lease given back).  Part of a `Many`: its place there gets the value or error.
    `deadline` 0.0: its time-out is counted from the next look at the clock.
    """

    cdef public object future
    cdef public double deadline
    cdef int kind
    cdef Pin pin
    cdef Many many
    cdef Py_ssize_t pos
    cdef bint told
    cdef long long made
    cdef bint bundled

    def part_of(self, Many many, Py_ssize_t pos):
        """Report to place `pos` of `many` instead of to a future."""
        self.many = many
        self.pos = pos

    def resolve(self, value):
        """Give the caller its result, unless it has gone."""
        self._succeed(value)

    def reject(self, error):
        """Give the caller its error, unless it has gone."""
        self._fail(error)

    @property
    def gone(self):
        """Whether the caller waits no more: cancelled, or told before."""
        return self._gone()

    cdef void _stamp(self, double deadline):
        # Give it a deadline, unless it has one.
        if self.deadline == 0:
            self.deadline = deadline

    cdef bint _gone(self) except -1:
        if self.many is not None:
            return self.told or self.many.future.done()
        return self.future is not None and self.future.done()

    cdef int _succeed(self, object value) except -1:
        if self.many is not None:
            if not self.told:
                self.told = True
                self.many.put(self.pos, value)
        elif self.future is not None and not self.future.done():
            self.future.set_result(value)
        return 0

    cdef int _fail(self, object error) except -1:
        if self.many is not None:
            if not self.told:
                self.told = True
                self.many.put(self.pos, error)
        elif self.future is not None and not self.future.done():
            self.future.set_exception(error)
        return 0


@cython.final
@cython.no_gc
cdef class Publish(Call):
    """A message on its way in; checked before it is made."""

    cdef readonly str group
    cdef bytes data
    cdef readonly int priority
    cdef readonly double delay
    cdef readonly long long rank
    cdef readonly str headers
    cdef readonly str dedup_id
    cdef readonly Py_ssize_t size
    cdef Settle tied

    def __cinit__(self):
        self.kind = IS_PUBLISH

    @property
    def text(self):
        """The event as it is stored: JSON text."""
        return self.data.decode()

    cdef bint _full(self):
        return self.tied is not None or self.delay != 0 or self.rank != 0 or self.headers is not None or self.dedup_id is not None


@cython.final
@cython.no_gc
cdef class Settle(Call):
    """A settlement of one lease: an operation of this module and its argument (seconds; a reason, and `error`, the
    text of what led to it)."""

    cdef readonly Lease lease
    cdef readonly int op
    cdef readonly object argument
    cdef readonly object error
    cdef public Claim then
    cdef public object on_lost
    cdef Py_ssize_t place
    cdef bint early

    def __cinit__(self):
        self.kind = IS_SETTLE

    def __init__(self, Lease lease not None, int op, argument=0.0, error=None):
        self.lease = lease
        self.op = op
        self.argument = argument
        self.error = error

    def tie(self, Claim claim not None):
        """Let `claim` ride along: it claims in the same commit, and only when this settlement is not lost."""
        self.then = claim
        claim.tied = self

    def lost(self):
        """The error that tells the caller that its lease was lost, or that this is out of the order of a run."""
        if self.early:
            return OutOfOrder(self.lease.seq, self.lease.group_id)
        return LeaseLost(self.lease.seq, self.lease.group_id, _DOING[self.op])

    cdef void _stamp(self, double deadline):
        # The claim that rides along has waited as long.
        Call._stamp(self, deadline)
        if self.then is not None:
            self.then._stamp(deadline)

    cdef Py_ssize_t _size(self):
        size = len(self.lease.group_id) + len(self.lease.token) + 24
        if type(self.argument) is str:
            size += len(<str>self.argument) + (0 if self.error is None else len(<str>self.error))
        return size

    cdef object _argument(self):
        return (self.argument, self.error) if self.op == OP_DEAD else self.argument

    cdef str _token(self):
        # What marks a parked message is no token.
        return "" if self.lease.token == "__parked__" else self.lease.token

    cdef int _lose(self, bint early=False) except -1:
        # `on_lost` is how lost="warn" works: it is told, and the call returns.
        self.early = early
        if early:
            if self.then is not None:
                self.then.tied_lost = True
            else:
                self._fail(self.lost())
        elif self.then is not None:
            if self.on_lost is None:
                self.then.tied_lost = True
            else:
                self.on_lost(self.lost())
        elif self.on_lost is not None:
            self.on_lost(self.lost())
            self._succeed(self.lease._ends() if self.op == OP_EXTEND else None)
        else:
            self._fail(self.lost())
        return 0


@cython.final
@cython.no_gc
cdef class Claim(Call):
    """A wish for the heads of up to `limit` groups, or for a run: up to `limit` messages of one group.

    `wants_list` tells a list from a single lease.  `only` says of which groups, None of any: ("list", JSON list of
    them) or ("prefix", JSON list of two bounds).
    """

    cdef readonly str worker
    cdef readonly double visibility
    cdef readonly int min_priority
    cdef readonly Py_ssize_t limit
    cdef readonly bint wants_list
    cdef readonly bint run
    cdef readonly tuple only
    cdef public double wait_until
    cdef public double until
    cdef public bint looked
    cdef bint acked
    cdef readonly Settle tied
    cdef bint tied_lost
    # What must live until the outcome is there, whoever lets go of it.
    cdef object kept

    def __cinit__(self):
        self.kind = IS_CLAIM

    def __init__(self, str worker not None, double visibility, int min_priority, Py_ssize_t limit, bint wants_list,
                 bint run=False, tuple only=None):
        self.worker = worker
        self.visibility = visibility
        self.min_priority = min_priority
        self.limit = limit
        self.wants_list = wants_list
        self.run = run
        self.only = only

    def wait_for(self, future, kept):
        """Report to `future`, and let `kept` live until then, whoever lets go of it."""
        self.future = future
        self.kept = kept

    def untie(self):
        """The `ack=` of this claim is done: from now on it is a claim like others."""
        if self.tied is not None:
            self.acked = True
        self.tied = None

    cdef int _succeed(self, object value) except -1:
        self.tied = None
        return Call._succeed(self, value)

    cdef int _fail(self, object error) except -1:
        self.tied = None
        # `Unavailable` promises that nothing was applied, and the `ack=` of this call was: it found nothing, then.
        if self.acked and isinstance(error, Unavailable):
            return self._succeed(self.empty())
        return Call._fail(self, error)

    def empty(self):
        """What the caller gets when there is nothing to claim."""
        return [] if self.wants_list else None


def give_back(Lease lease not None):
    """A settlement that gives a lease back without an attempt spent; nobody waits for it."""
    call = Settle(lease, OP_GIVE_BACK)
    call.deadline = float("inf")
    return call


def first_of_each(leases not None):
    """Without those that come after another one of the same run (list): what is given back takes them along."""
    cdef Lease lease
    found, seen = [], set()
    for lease in leases:
        if not lease._turn:
            found.append(lease)
        elif lease.token not in seen:
            seen.add(lease.token)
            found.append(lease)
    return found
