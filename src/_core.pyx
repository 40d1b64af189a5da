# cython: language_level=3
"""The core of rqfast: what happens for each call.

A `Batcher` gathers calls and fills a `Batch`; a batch becomes one program (a list of statements with their
parameters) or one request body; the reply, taken apart, gives each call its own outcome.  The core knows bytes,
rows and opaque futures (anything with `done`, `set_result` and `set_exception`).  It does no I/O, starts nothing
and reads no clock: what happens for each *request* is Python, in `rqfast.pipeline` and `rqfast.engine`.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL
    long PyLong_AsLongAndOverflow(object value, int* overflow) except? -1

import re
from copy import copy as copy_error
from types import GenericAlias

import orjson

from rqfast.errors import (
    Closed, GarbledReply, InvalidMessage, LeaseLost, NotHeld, OutcomeUnknown, OutOfOrder, Published, Unavailable,
)

cdef object _dumps = orjson.dumps
cdef object _loads = orjson.loads
cdef object _Fragment = orjson.Fragment

include "core/lease.pxi"
include "core/calls.pxi"
include "core/bundle.pxi"
include "core/events.pxi"
include "core/rows.pxi"
include "core/operate.pxi"
include "core/batch.pxi"
include "core/batcher.pxi"
include "core/claimed.pxi"
include "core/intake.pxi"
include "core/reply.pxi"
