# ClaimFuture: the future of a claim, which knows whether its result was taken.


@cython.final
cdef class ClaimFuture:
    """A future of what was claimed: a message that nobody took goes back.

    A task that is cancelled after its claim came, but before it runs again, never sees the lease: the future does,
    and gives the message back, then or when it is collected.  It stands before a future of the loop, `inner`, that
    gets the outcome: tasks wait for that one, and say so to this one when they go on.
    """

    cdef object inner
    cdef object give_back
    cdef bint taken
    cdef Py_ssize_t awaiting
    # A task that is given this future by a coroutine of another kind sets it, as with any future.
    cdef public object _asyncio_future_blocking

    def __init__(self, inner, give_back):
        self.inner = inner
        self.give_back = give_back
        self._asyncio_future_blocking = False

    @property
    def __class__(self):
        # It is one of them to whoever asks, in all but its layout.
        return type(self.inner)

    def result(self):
        """The lease or leases; from now on they are the caller's."""
        found = self.inner.result()
        self.taken = True
        return found

    def __await__(self):
        return _awaited(self)

    def __iter__(self):
        return _awaited(self)

    def done(self):
        """Whether it has a result or an error, or was cancelled."""
        return self.inner.done()

    def cancelled(self):
        """Whether it was cancelled."""
        return self.inner.cancelled()

    def exception(self):
        """The error, or None."""
        return self.inner.exception()

    def cancel(self, msg=None):
        """Ask for nothing any more; False when it is done."""
        return self.inner.cancel(msg) if msg is not None else self.inner.cancel()

    def get_loop(self):
        """The loop to which it belongs."""
        return self.inner.get_loop()

    def set_result(self, result):
        """Set the outcome."""
        self.inner.set_result(result)

    def set_exception(self, exception):
        """Set the error."""
        self.inner.set_exception(exception)

    def add_done_callback(self, fn, *, context=None):
        """Have `fn(self)` called when it is done."""
        self.inner.add_done_callback(_Told(fn, self), context=context)

    def remove_done_callback(self, fn):
        """Remove all instances of a callback; returns how many there were."""
        return self.inner.remove_done_callback(_Told(fn, self))

    def drop(self):
        """Nobody wants it any more: cancelled, or what came goes back."""
        if not self.cancel():
            self._return()

    cdef int _return(self) except -1:
        if (self.taken or self.awaiting or not self.inner.done() or self.inner.cancelled()
                or self.inner.exception() is not None):
            return 0
        found = self.result()
        if found:
            self.give_back(found if type(found) is list else [found])
        return 0

    def __del__(self):
        if not self.taken:
            self._return()

    def __repr__(self):
        return f"<ClaimFuture of {self.inner!r}>"


cdef ClaimFuture _claim_future(object inner, object give_back):
    cdef ClaimFuture future = ClaimFuture.__new__(ClaimFuture)
    future.inner = inner
    future.give_back = give_back
    future._asyncio_future_blocking = False
    return future


@cython.final
cdef class _Told:
    """A callback as the inner future knows it."""

    cdef object callback
    cdef ClaimFuture future

    def __init__(self, callback, ClaimFuture future):
        self.callback = callback
        self.future = future

    def __call__(self, inner):
        return self.callback(self.future)

    def __eq__(self, other):
        return type(other) is _Told and self.callback == (<_Told>other).callback

    def __hash__(self):
        return hash(self.callback)


@cython.final
@cython.freelist(1024)
cdef class _Awaited:
    """One `await` of such a future."""

    cdef ClaimFuture future
    cdef bint waits

    def __iter__(self):
        return self

    def __next__(self):
        cdef ClaimFuture future = self.future
        if not self.waits and not future.inner.done():
            self.waits = True
            future.awaiting += 1
            future.inner._asyncio_future_blocking = True
            return future.inner
        self._ends()
        raise StopIteration(future.result())

    def send(self, value):
        """Go on."""
        return self.__next__()

    def throw(self, kind, value=None, trace=None):
        """The task that waits was cancelled, or told something else."""
        self._ends()
        self.future._return()
        if value is None:
            value = kind() if isinstance(kind, type) else kind
        raise value if trace is None else value.with_traceback(trace)

    def close(self):
        """The coroutine that waits is given up."""
        self._ends()
        self.future._return()

    cdef void _ends(self):
        if self.waits:
            self.waits = False
            self.future.awaiting -= 1


cdef _Awaited _awaited(ClaimFuture future):
    cdef _Awaited made = _Awaited.__new__(_Awaited)
    made.future = future
    made.waits = False
    return made
