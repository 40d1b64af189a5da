# Rows: the JSON text that a statement takes as its parameter, written in one go.
#
# The text is a parameter of a request that is JSON itself.  Written at once as it stands in there, nothing is escaped
# by one pass over the row and then by another over all rows.

from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc

cdef enum:
    FIRST_ROOM = 1 << 12
    # The most that one byte of a string becomes: backslash, backslash, u, four digits.
    LONGEST = 8
    # Bytes of a string for which room is made at once.
    PIECE = 1 << 12

cdef struct Escape:
    unsigned char size
    char text[LONGEST]

# What stands for each byte of a string: in a JSON text, and in a JSON text that stands in a JSON string.
cdef Escape _ESCAPES[2][256]


cdef int _set_escapes() except -1:
    cdef bytes once, twice
    cdef int byte
    for byte in range(256):
        once = _dumps(chr(byte))[1:-1] if byte < 128 else bytes([byte])
        twice = _dumps(once.decode())[1:-1] if byte < 128 else once
        for level, made in enumerate((once, twice)):
            _ESCAPES[level][byte].size = len(made)
            memcpy(_ESCAPES[level][byte].text, PyBytes_AS_STRING(made), len(made))
    return 0


_set_escapes()


@cython.final
cdef class _Rows:
    """Writes a list of lists as JSON text: `inside` a request body as a string, or as the text that it is."""

    cdef char* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef bint inside
    cdef bint first

    def __cinit__(self, bint inside):
        self.inside = inside
        self.room = FIRST_ROOM
        self.data = <char*>PyMem_Malloc(self.room)
        if self.data == NULL:
            raise MemoryError()
        self._put(b'"[' if inside else b"[", 2 if inside else 1)
        self.first = True

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef int _reserve(self, Py_ssize_t more) except -1:
        cdef char* data
        if self.size + more > self.room:
            self.room += self.room // 2 + more
            data = <char*>PyMem_Realloc(self.data, self.room)
            if data == NULL:
                raise MemoryError()
            self.data = data
        return 0

    cdef int _put(self, const char* text, Py_ssize_t size) except -1:
        self._reserve(size)
        memcpy(self.data + self.size, text, size)
        self.size += size
        return 0

    cdef int open_row(self) except -1:
        if self.first:
            self.first = False
            return self._put(b"[", 1)
        return self._put(b",[", 2)

    cdef int next_value(self) except -1:
        return self._put(b",", 1)

    cdef int close_row(self) except -1:
        return self._put(b"]", 1)

    cdef int add_int(self, long long value) except -1:
        cdef char digits[20]
        cdef int at = 20
        cdef unsigned long long left = -<unsigned long long>value if value < 0 else value
        while True:
            at -= 1
            digits[at] = <char>(48 + left % 10)
            left //= 10
            if left == 0:
                break
        if value < 0:
            self._put(b"-", 1)
        return self._put(digits + at, 20 - at)

    cdef int add_str(self, str text) except -1:
        cdef Py_ssize_t size
        cdef const char* data = PyUnicode_AsUTF8AndSize(text, &size)
        return self.add_string(data, size)

    cdef int add_string(self, const char* text, Py_ssize_t size) except -1:
        # UTF-8 text as a JSON string.
        cdef Py_ssize_t i, piece
        cdef char* out
        cdef const Escape* escape
        cdef const Escape* table = _ESCAPES[1 if self.inside else 0]
        self._quote()
        while size > 0:
            piece = size if size < PIECE else PIECE
            self._reserve(piece * LONGEST)
            out = self.data + self.size
            for i in range(piece):
                escape = &table[<unsigned char>text[i]]
                # A copy of a fixed size is two instructions; what is too much is overwritten by the next.
                memcpy(out, escape.text, LONGEST)
                out += escape.size
            self.size = out - self.data
            text += piece
            size -= piece
        return self._quote()

    cdef inline int _quote(self) except -1:
        if self.inside:
            return self._put(b'\\"', 2)
        return self._put(b'"', 1)

    cdef object end(self):
        """Return the parameter."""
        if not self.inside:
            self._put(b"]", 1)
            return self.data[:self.size].decode("utf-8")
        self._put(b']"', 2)
        return _Fragment(PyBytes_FromStringAndSize(self.data, self.size))
