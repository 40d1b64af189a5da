# ClaimFuture: the future of a claim, which knows whether its result was taken.

cdef extern from *:
    """
    /* What `await` asks an iterator first: a result that comes this way need not be raised as StopIteration. */
    static void rqfast_set_send(PyObject* type, int (*send)(PyObject*, PyObject*, PyObject**)) {
        ((PyTypeObject*)type)->tp_as_async->am_send = (sendfunc)send;
    }
    """
    ctypedef int (*Send)(PyObject*, PyObject*, PyObject**) except -1
    int PYGEN_RETURN
    int PYGEN_NEXT
    void rqfast_set_send(PyObject* kind, Send send)


# The garbage collector need not look at one until an error has come out of it, which leads back to it: its traceback
# knows the frame that holds this future.
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

    def __getattr__(self, name):
        # What gather() and others of the library ask of a future beside its methods.
        return getattr(self.inner, name)

    def result(self):
        """The lease or leases; from now on they are the caller's."""
        try:
            found = self.inner.result()
        except BaseException:
            self._follow()
            raise
        self.taken = True
        return found

    def __await__(self):
        cdef _Awaiting made = _Awaiting.__new__(_Awaiting)
        made.future = self
        made.waits = False
        return made

    def __iter__(self):
        return self.__await__()

    def done(self):
        """Whether it has a result or an error, or was cancelled."""
        return self.inner.done()

    def cancelled(self):
        """Whether it was cancelled."""
        return self.inner.cancelled()

    def exception(self):
        """The error, or None."""
        self._follow()
        return self.inner.exception()

    def cancel(self, msg=None):
        """Ask for nothing any more; False when it is done."""
        return self.inner.cancel(msg) if msg is not None else self.inner.cancel()

    def get_loop(self):
        """The loop to which it belongs."""
        return self.inner.get_loop()

    def set_result(self, result, /):
        """Set the outcome."""
        self.inner.set_result(result)

    def set_exception(self, exception, /):
        """Set the error."""
        self.inner.set_exception(exception)

    def add_done_callback(self, fn, /, *, context=None):
        """Have `fn(self)` called when it is done."""
        self._follow()
        self.inner.add_done_callback(_Told(fn, self), context=context)

    def remove_done_callback(self, fn, /):
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

    cdef int _follow(self) except -1:
        if not PyObject_GC_IsTracked(self):
            PyObject_GC_Track(self)
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
    PyObject_GC_UnTrack(future)
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


# Not followed by the garbage collector: see Call.
@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class _Awaiting:
    """One `await` of such a future."""

    cdef ClaimFuture future
    cdef bint waits

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        inner = self._wait()
        if inner is None:
            raise StopIteration(self.future.result())
        return inner

    def send(self, value):
        """Go on."""
        return self.__next__()

    def throw(self, kind, value=None, trace=None):
        """The task that waits was cancelled, or is told something else."""
        self.close()
        self.future._follow()
        if value is None:
            value = kind() if isinstance(kind, type) else kind
        raise value if trace is None else value.with_traceback(trace)

    def close(self):
        """Nobody waits here any more."""
        self._go_on()
        self.future._return()

    cdef object _wait(self):
        # What the task has to wait for; None: the outcome is there.
        cdef object inner = self.future.inner
        if self.waits or inner.done():
            self._go_on()
            return None
        self.waits = True
        self.future.awaiting += 1
        inner._asyncio_future_blocking = True
        return inner

    cdef void _go_on(self):
        if self.waits:
            self.waits = False
            self.future.awaiting -= 1

    cdef int _step(self, PyObject** result) except -1:
        cdef object found = self._wait()
        cdef int step = PYGEN_NEXT
        if found is None:
            found = self.future.result()
            step = PYGEN_RETURN
        Py_INCREF(found)
        result[0] = <PyObject*>found
        return step


cdef int _send(PyObject* awaiting, PyObject* value, PyObject** result) except -1:
    # -1 is PYGEN_ERROR.
    result[0] = NULL
    return (<_Awaiting>awaiting)._step(result)


rqfast_set_send(<PyObject*>_Awaiting, _send)
