# From what a caller passes to a Publish: checked, encoded.

from cpython.unicode cimport PyUnicode_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcpy

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef Py_ssize_t _utf8_size(str text, str argument) except -1:
    cdef Py_ssize_t size
    try:
        PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        raise InvalidMessage(
            f"{argument} holds a lone surrogate, which no database can store as text", argument) from None
    return size


def check_id(value, str argument not None):
    """Return `value` when it can be a group, worker or dedup id: a str of 1 to 1,024 UTF-8 bytes without NUL.

    (SQLite's JSON functions cut text at a NUL before 3.42, and so would take two groups for one.)
    """
    cdef Py_ssize_t size
    cdef const char* text
    if not PyUnicode_Check(value):
        raise TypeError(f"{argument} is a str, not {type(value).__name__}")
    if type(value) is not str:
        value = str.__str__(value)
    size = _utf8_size(value, argument)
    if size == 0 or size > 1024:
        raise InvalidMessage(f"{argument} has {size} bytes: it needs 1 to 1,024", argument)
    text = PyUnicode_AsUTF8AndSize(value, NULL)
    if memchr(text, 0, size) != NULL:
        raise InvalidMessage(f"{argument} holds a NUL character", argument)
    return value


cdef enum:
    COPIED = 480
    # What a cluster takes in seconds, not in minutes.
    MAX_EVENT = 16 << 20

MOST_EVENT = MAX_EVENT


cdef bytes _encoded(object event, object encode):
    cdef bytes data
    if type(event) is bytes:
        return _checked_json(<bytes>event)
    if encode is not None:
        return _encoded_by_user(encode(event))
    if type(event) not in _PLAIN and hasattr(event, "model_dump_json"):
        return _encoded_by_user(event.model_dump_json(), False)
    try:
        data = _dumps(event)
        # A copy: what orjson returns stands in a block of a kilobyte at least, and would leave holes behind.
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)) if len(data) < COPIED else data
    except TypeError as error:
        raise TypeError(f"event: {error}; encode= makes JSON of what orjson does not know") from error


cdef tuple _PLAIN = (dict, list, str, int, float, bool, type(None))


cdef bytes _checked_json(bytes data):
    try:
        _loads(data)
        data.decode("utf-8")
    except ValueError as error:
        raise InvalidMessage(f"event: bytes are JSON text already encoded, and these are not: {error}", "event") from None
    return data


cdef bytes _encoded_by_user(object made, bint check=True):
    cdef bytes data
    if type(made) is bytes:
        data = made
    elif isinstance(made, str):
        try:
            data = made.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidMessage(f"event: its encoded text cannot be stored: {error}", "event") from None
    else:
        raise TypeError(f"encode= returned {type(made).__name__}: it returns JSON text, as str or bytes")
    # Bytes that are no text would fail all that goes with them.
    return _checked_json(data) if check or type(made) is bytes else data


cdef Publish _plain_publish(str group, bytes data):
    # A message without further fields.  Set one by one: a freed call that is used again keeps nothing.
    if len(data) > MAX_EVENT:
        raise InvalidMessage(
            f"event has {len(data):,} bytes as JSON: {MAX_EVENT:,} at most, since all calls wait while it is written; "
            "keep it elsewhere, and publish where it is", "event")
    cdef Publish call = Publish.__new__(Publish)
    call.group = group
    call.data = data
    call.size = len(data) + len(group) + 16
    return call


def make_publish(group_id, event, int priority, double delay, long long rank, headers, dedup_id, encode):
    """Make a `Publish`; priority, delay, rank and headers (JSON text or None) were checked by the caller."""
    cdef str group = check_id(group_id, "group_id")
    cdef Publish call = _plain_publish(group, _encoded(event, encode))
    call.priority = priority
    call.delay = delay
    call.rank = rank
    call.headers = headers
    if headers is not None:
        call.size += len(<str>headers)
    if dedup_id is not None:
        call.dedup_id = check_id(dedup_id, "dedup_id")
    return call


cdef object _ZERO = 0


cdef inline int _small(object value, int most):
    # An int from 0 to `most`; -1: anything else, which Python code looks at.
    cdef long found
    cdef int overflow = 0
    if type(value) is not int:
        return -1
    found = PyLong_AsLongAndOverflow(value, &overflow)
    return <int>found if overflow == 0 and 0 <= found <= most else -1


cpdef Publish plain_publish(group_id, event, priority, delay, rank, headers, dedup_id, encode):
    """Make a `Publish` of arguments as a caller gave them; None: they are not plain, and have to be looked at."""
    cdef Publish call
    cdef int level = 0 if priority is _ZERO else _small(priority, 4)
    if (level < 0 or type(group_id) is not str or delay is not _ZERO or rank is not _ZERO or headers is not None
            or dedup_id is not None):
        return None
    check_id(group_id, "group_id")
    call = _plain_publish(<str>group_id, _encoded(event, encode))
    call.priority = level
    return call


@cython.final
cdef class Load:
    """Items of a `publish_many` become calls here, until there are enough for a request.

    Args:
        make: from an item that is not plain, and its position, to a call; says what is wrong with a bad one.
        encode: the option of that name.
        most, most_size: when it is full: so many calls, or so many bytes.
    """

    cdef object make
    cdef object encode
    cdef Py_ssize_t most
    cdef Py_ssize_t most_size
    cdef Py_ssize_t count
    cdef Py_ssize_t size
    cdef list calls

    def __init__(self, make, encode, Py_ssize_t most, Py_ssize_t most_size):
        self.make = make
        self.encode = encode
        self.most = most
        self.most_size = most_size
        self.calls = []

    def fill(self, items):
        """Take items from an iterator; returns whether it is full, and there may be more."""
        for item in items:
            if self._put(item):
                return True
        return False

    def put(self, item):
        """Take one item; returns whether it is full."""
        return self._put(item)

    def take(self):
        """The calls; it is empty then."""
        calls, self.calls, self.size = self.calls, [], 0
        return calls

    cdef bint _put(self, object item) except -1:
        cdef Publish call = None
        if type(item) is tuple and len(<tuple>item) == 2:
            try:
                call = plain_publish((<tuple>item)[0], (<tuple>item)[1], _ZERO, _ZERO, _ZERO, None, None, self.encode)
            except (TypeError, InvalidMessage):
                call = None
        if call is None:
            call = self.make(item, self.count)
        self.count += 1
        self.calls.append(call)
        self.size += call.size
        return len(self.calls) >= self.most or self.size >= self.most_size


def as_parts(future, list calls not None, double deadline):
    """Have the outcomes of these calls come together, as a list, in `future`."""
    cdef Many many = Many(future, len(calls))
    cdef Call call
    cdef Py_ssize_t position = 0
    for call in calls:
        call.many = many
        call.pos = position
        call.deadline = deadline
        position += 1
