# Bytes to a server, bytes from it.


def encode_program(list program not None):
    """One request body of a program whose texts are ready-made JSON (`Texts(..., as_json=True)`)."""
    return _dumps(program)


def decode_reply(bytes body not None):
    """Take a reply apart: (results, error), where results are the server's slots and error its whole-request text.

    Raises `GarbledReply` when the bytes are not what the server sends.
    """
    try:
        reply = _loads(body)
    except ValueError as error:
        raise GarbledReply(f"not JSON: {error}") from None
    if type(reply) is not dict:
        raise GarbledReply("not a JSON object")
    error = reply.get("error")
    if error is not None:
        return [], str(error)
    results = reply.get("results")
    if type(results) is not list:
        raise GarbledReply("no results")
    for slot in results:
        if type(slot) is not dict:
            raise GarbledReply("a result is not an object")
    return results, None


def slot_errors(list results not None):
    """The statement errors of a reply: a list of (position, text)."""
    cdef list found = []
    cdef Py_ssize_t at = 0
    for slot in results:
        if "error" in <dict>slot:
            found.append((at, str((<dict>slot)["error"])))
        at += 1
    return found


def slot_rows(list results not None):
    """The rows of each slot; None where the server does not say that there could be any."""
    cdef list found = []
    for slot in results:
        rows = (<dict>slot).get("values")
        if rows is None:
            rows = [] if "columns" in <dict>slot else None
        elif type(rows) is not list:
            raise GarbledReply("the rows of a result are not a list")
        for row in rows or ():
            if type(row) is not list:
                raise GarbledReply("a row is not a list")
        found.append(rows)
    return found
