# The rows of claims in a reply: straight from its bytes to leases.
#
# As lists of Python objects they would cost more than all the rest of a claim, most of it in the garbage collector.
# What does not look as expected, in any way, is left to the JSON parser and its checks.

from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.string cimport memcmp

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char* text, Py_ssize_t size, const char* errors)
    double PyOS_string_to_double(const char* text, char** end, PyObject* overflow) except? -1.0

cdef double[17] _TENS
for _i in range(17):
    _TENS[_i] = 10.0 ** _i

cdef bytes _ROWS = b'"values":[['

cdef enum:
    LONGEST_NUMBER = 40


@cython.final
cdef class _RowReader:
    """Reads `[[seq,group,event,attempts,rank,headers,published_at,lock_expiry,priority,turn],..]`.

    Each `_read_..` returns whether the bytes are what it reads; only then it goes on to what follows them.
    """

    cdef const char* at
    cdef const char* end
    cdef bytearray buffer
    # Rows of a reply mostly have their times in common.
    cdef const char* published_text
    cdef Py_ssize_t published_size
    cdef object published
    cdef const char* expires_text
    cdef Py_ssize_t expires_size
    cdef double expires

    cdef bint _skip(self, const char* text, Py_ssize_t size):
        if self.end - self.at < size or memcmp(self.at, text, size) != 0:
            return False
        self.at += size
        return True

    cdef bint _read_int(self, long long* value):
        cdef const char* at = self.at
        cdef bint negative = at < self.end and at[0] == 45
        cdef long long found = 0
        cdef int digits = 0
        if negative:
            at += 1
        while at < self.end and 48 <= at[0] <= 57 and digits < 18:
            found = found * 10 + (at[0] - 48)
            digits += 1
            at += 1
        if not digits or at >= self.end or not (at[0] == 44 or at[0] == 93):
            return False
        value[0] = -found if negative else found
        self.at = at
        return True

    cdef Py_ssize_t _number_size(self):
        # Of the text of a number, which a comma must follow; 0: there is none.
        cdef Py_ssize_t size = 0
        cdef unsigned char byte
        while size < LONGEST_NUMBER and self.at + size < self.end:
            byte = self.at[size]
            if byte == 44:
                return size
            if not (48 <= byte <= 57 or byte == 45 or byte == 43 or byte == 46 or byte == 101 or byte == 69):
                return 0
            size += 1
        return 0

    cdef bint _read_double(self, Py_ssize_t size, double* value) except -1:
        cdef char text[LONGEST_NUMBER + 1]
        cdef char* end
        cdef long long digits = 0
        cdef int count = 0, behind = 0
        cdef Py_ssize_t i
        cdef bint point = False
        cdef unsigned char byte, first
        # What JSON has for a number begins with a digit, and not with 0 but for 0 and 0.something.
        first = self.at[1 if self.at[0] == 45 and size > 1 else 0]
        if not 49 <= first <= 57:
            return False
        # Digits that a double holds exactly, and a power of ten that it holds too: their quotient is rounded once.
        for i in range(size):
            byte = self.at[i]
            if 48 <= byte <= 57:
                digits = digits * 10 + (byte - 48)
                count += 1
                behind += point
            elif byte == 46 and not point:
                point = True
            else:
                count = 99
            if count > 16:
                break
        if count <= 16 and digits < (1 << 53) and self.at[size - 1] != 46:
            value[0] = <double>digits / _TENS[behind]
            return True
        memcpy(text, self.at, size)
        text[size] = 0
        try:
            value[0] = PyOS_string_to_double(text, &end, NULL)
        except ValueError:
            return False
        return end == text + size and -1e300 < value[0] < 1e300

    cdef bint _read_published(self) except -1:
        cdef double value
        cdef Py_ssize_t size
        if self._skip(b"null", 4):
            self.published = None
            self.published_text = NULL
            return True
        size = self._number_size()
        if size == 0:
            return False
        if self.published_text == NULL or size != self.published_size or memcmp(self.at, self.published_text, size) != 0:
            if not self._read_double(size, &value):
                return False
            self.published = value
            self.published_text = self.at
            self.published_size = size
        self.at += size
        return True

    cdef bint _read_expires(self) except -1:
        cdef Py_ssize_t size = self._number_size()
        if size == 0:
            return False
        if self.expires_text == NULL or size != self.expires_size or memcmp(self.at, self.expires_text, size) != 0:
            if not self._read_double(size, &self.expires):
                return False
            self.expires_text = self.at
            self.expires_size = size
        self.at += size
        return True

    cdef str _read_str(self):
        # None: it is no string, or not a simple one.
        cdef const char* at = self.at + 1
        cdef const char* start = at
        cdef char* out
        cdef char* begin
        cdef const char* end
        cdef Py_ssize_t size
        cdef unsigned char byte
        if self.at >= self.end or self.at[0] != 34:
            return None
        while at < self.end and at[0] != 34 and at[0] != 92 and <unsigned char>at[0] >= 32:
            at += 1
        if at >= self.end or <unsigned char>at[0] < 32:
            return None
        if at[0] == 34:
            self.at = at + 1
            return self._decoded(start, at - start)
        # With escapes: how long it is at most, then piece by piece.
        while at < self.end and at[0] != 34:
            at += 2 if at[0] == 92 else 1
        if at >= self.end:
            return None
        size = at - start
        if len(self.buffer) < size:
            self.buffer = bytearray(size * 2)
        begin = PyByteArray_AS_STRING(self.buffer)
        out = begin
        end = at
        at = start
        while at < end:
            byte = <unsigned char>at[0]
            if byte < 32:
                return None
            if byte != 92:
                out[0] = at[0]
                out += 1
                at += 1
                continue
            byte = <unsigned char>at[1]
            if byte == 34 or byte == 92 or byte == 47:
                out[0] = at[1]
            elif byte == 110:
                out[0] = 10
            elif byte == 116:
                out[0] = 9
            elif byte == 114:
                out[0] = 13
            else:
                # \u and what is rarer still.
                return None
            out += 1
            at += 2
        self.at = end + 1
        return self._decoded(begin, out - begin)

    cdef str _decoded(self, const char* text, Py_ssize_t size):
        try:
            return PyUnicode_DecodeUTF8(text, size, NULL)
        except UnicodeDecodeError:
            return None

    cdef Lease _read_row(self):
        # What follows the opening bracket of a row; None: not what was expected.
        cdef Lease lease = Lease.__new__(Lease)
        cdef long long value
        PyObject_GC_UnTrack(lease)
        if not (self._read_int(&lease.seq) and self._skip(b",", 1)):
            return None
        lease.group_id = self._read_str()
        if lease.group_id is None or not self._skip(b",", 1):
            return None
        lease._raw = self._read_str()
        if lease._raw is None or not self._skip(b",", 1):
            return None
        if not self._read_int(&value) or not -(1 << 31) <= value < (1 << 31) or not self._skip(b",", 1):
            return None
        lease.attempts = <int>value
        if not self._read_int(&lease.rank) or not self._skip(b",", 1):
            return None
        lease._headers = None
        if not self._skip(b"null,", 5):
            lease._headers = self._read_str()
            if lease._headers is None or not self._skip(b",", 1):
                return None
        if not self._read_published() or not self._skip(b",", 1):
            return None
        lease.published_at = self.published
        if not self._read_expires() or not self._skip(b",", 1):
            return None
        lease._expires_at = self.expires
        value = 0
        if not self._skip(b"null,", 5):
            if not self._read_int(&value) or not 0 <= value < 1000 or not self._skip(b",", 1):
                return None
        lease.priority = <int>value
        lease.fence = 0
        if not self._skip(b"null]", 5):
            if not self._read_int(&lease.fence) or not self._skip(b"]", 1):
                return None
        return lease

    cdef list _read(self):
        # What follows `[[`; None: not what was expected.
        cdef list found = []
        cdef Lease lease
        while True:
            lease = self._read_row()
            if lease is None:
                return None
            found.append(lease)
            if self._skip(b"]", 1):
                return found
            if not self._skip(b",[", 2):
                return None


cdef tuple _without_leases(bytes body):
    # The reply with a 0 in the place of each list of claimed rows, and these lists.
    cdef _RowReader reader = _RowReader.__new__(_RowReader)
    cdef list pieces = [], lists = [], found
    cdef const char* data = PyBytes_AS_STRING(body)
    cdef Py_ssize_t at = 0, done = 0
    reader.end = data + PyBytes_GET_SIZE(body)
    reader.buffer = bytearray(512)
    while True:
        # Not in a string: there a quote has a backslash before it, and this one has a letter.
        at = body.find(_ROWS, at)
        if at < 0:
            break
        at += len(_ROWS)
        reader.at = data + at
        found = reader._read()
        if found is None:
            continue
        pieces.append(body[done:at - 2])
        pieces.append(b"0")
        lists.append(found)
        at = done = reader.at - data
    if not lists:
        return body, lists
    pieces.append(body[done:])
    return b"".join(pieces), lists
