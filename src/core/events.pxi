# From what a caller passes to a Publish: checked, encoded.

from cpython.unicode cimport PyUnicode_Check
from libc.string cimport memchr

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


def encode_event(event, encode=None):
    """Return the stored text of an event and its size in UTF-8 bytes.

    `bytes` are JSON text already encoded: checked, then kept byte for byte.
    """
    data = _encoded(event, encode)
    return data.decode(), len(data)


cdef bytes _encoded(object event, object encode):
    if type(event) is bytes:
        return _checked_json(<bytes>event)
    if encode is not None:
        return _encoded_by_user(encode(event))
    if type(event) not in _PLAIN and hasattr(event, "model_dump_json"):
        return _encoded_by_user(event.model_dump_json(), False)
    try:
        return _dumps(event)
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
    return _checked_json(data) if check else data


cdef Publish _plain_publish(str group, bytes data):
    # A message without further fields.  Set one by one: a freed call that is used again keeps nothing.
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
