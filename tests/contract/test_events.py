"""Events: what goes in comes out, byte for byte where it was encoded already; decoding is the caller's."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson
import pytest

from rqfast import InvalidMessage
from tests.contract.views import Lease, Queue, View

VALUES: dict[str, object] = {
    "an int": 1,
    "zero": 0,
    "negative": -17,
    "a float": 1.5,
    "a small float": 5e-324,
    "a float that is whole": 1.0,
    "true": True,
    "false": False,
    "null": None,
    "an empty string": "",
    "a word": "hello",
    "an empty list": [],
    "an empty object": {},
    "nested": {"a": [1, {"b": [None, True, "c"]}], "": {"": ""}},
    "more than a double holds": 2**53 + 1,
    "the largest int": 2**63 - 1,
    "the smallest int": -(2**63),
    "a blob literal": "X'6162'",
    "a blob literal in small letters": "x'00ff'",
    "a blob literal among blanks": " X'61' ",
    "a string that looks like JSON": '{"a":1}',
    "a string that looks like null": "null",
    "a string that looks like a number": "1.00",
    "NUL": "\x00",
    "NUL inside": "a\x00b\x00",
    "control characters": "\t\r\n\x01\x1f\x7f",
    "quotes": "'\"`\\",
    "line separators": "\u2028\u2029\ufeff",
    "emoji": "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "the last code points": "\ud7ff\ue000\uffff\U0010ffff",
    "html": "<a href='x'>&amp;</a>",
    "placeholders": "? ?1 :a @a $a {0} %s",
    "the mark of a parked message": "__parked__",
    "ten thousand items": list(range(10_000)),
}

TEXTS: dict[str, bytes] = {
    "one byte": b"1",
    "blanks": b' \t\r\n{ "a" : [ 1 , 2 ] } \n',
    "trailing zeros": b"1.00",
    "an exponent": b"1E2",
    "an exponent with a sign": b"-1.5e+07",
    "minus zero": b"-0",
    "an escape that need not be": b'"\\u0041\\/"',
    "doubled keys": b'{"a":1,"a":2,"a":1}',
    "keys out of order": b'{"b":1,"a":2}',
    "all at once": b' {"a" : 1.00, "b":1E2, "c":"\\u0041", "a":2} ',
    "a string": b'"text"',
    "a blob literal as a string": b"\"X'6162'\"",
    "an escaped NUL": b'"\\u0000"',
    "an escaped pair": b'"\\ud83d\\ude00"',
    "UTF-8": '"\u00e9\U0001f600"'.encode(),
    "null": b"null",
    "a large int": b"9223372036854775807",
    "many digits": b"0.1000000000000000055511151231257827021181583404541015625",
}

NOT_JSON: dict[str, bytes] = {
    "nothing": b"",
    "a blank": b" ",
    "half": b'{"a":',
    "a word": b"hello",
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "single quotes": b"'a'",
    "two values": b"1 2",
    "a trailing comma": b"[1,]",
    "a comment": b"1 // one",
    "a leading zero": b"01",
    "a bare control character": b'"a\nb"',
    "a NUL after it": b"1\x00",
    "a byte order mark": b"\xef\xbb\xbf1",
    "not UTF-8": b'"\xff"',
    "Latin-1": '"\u00e9"'.encode("latin-1"),
    "half a character": b'"\xf0\x9f"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "an overlong form": b'"\xc0\xaf"',
    "UTF-16": '"a"'.encode("utf-16-le"),
}


def take(view: View) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w")
    assert lease is not None
    return lease


def through(view: View, event: object) -> Lease:
    """Publish, claim and acknowledge."""
    view.publish("g", event)
    lease = take(view)
    view.ack(lease)
    return lease


def test_a_value_comes_back_as_it_was(q: Queue) -> None:
    view = q.open()
    for name, value in VALUES.items():
        lease = through(view, value)
        assert lease.event == value, name
        assert type(lease.event) is type(value), name
        assert lease.raw == orjson.dumps(value).decode(), name


def test_all_values_in_one_batch_come_back_as_they_were(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", value) for n, value in enumerate(VALUES.values())])
    leases = view.claim_many("w", 30, 1000)
    assert {int(lease.group_id[1:]): lease.event for lease in leases} == dict(enumerate(VALUES.values()))


def test_bytes_are_kept_byte_for_byte(q: Queue) -> None:
    view = q.open()
    for name, text in TEXTS.items():
        lease = through(view, text)
        assert lease.raw.encode() == text, name
        assert lease.event == json.loads(text), name


def test_all_texts_in_one_batch_are_kept_byte_for_byte(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", text) for n, text in enumerate(TEXTS.values())])
    leases = view.claim_many("w", 30, 1000)
    assert {int(lease.group_id[1:]): lease.raw.encode() for lease in leases} == dict(enumerate(TEXTS.values()))


def refused(view: View, events: Mapping[str, object]) -> None:
    """None of them is taken, with or without other arguments, and the queue goes on."""
    wrong = []
    for name, event in events.items():
        for more in ({}, {"delay": 1}):
            try:
                view.publish("g", event, **more)
                wrong.append(f"{name} was taken")
            except (InvalidMessage, TypeError) as error:
                if "event" not in getattr(error, "argument", "event"):
                    wrong.append(f"{name}: {error!r}")
    assert wrong == []
    assert view.claim("w") is None
    assert through(view, 1).event == 1


def test_bytes_that_are_not_json_are_refused(q: Queue) -> None:
    view = q.open()
    refused(view, NOT_JSON)
    with pytest.raises(InvalidMessage, match="event"):
        view.publish("g", b"{")


def test_lone_surrogates_are_refused(q: Queue) -> None:
    events: dict[str, object] = {}
    for mark in ("\ud800", "a\udfffb", "\ude00\ud83d"):
        for event in (mark, [mark], {mark: 1}, {"a": {"b": mark}}):
            events[ascii(event)] = event
    refused(q.open(), events)


class Opaque:
    """Nothing that JSON knows."""


def test_what_cannot_be_encoded_is_refused(q: Queue) -> None:
    events: list[object] = [Opaque(), {1, 2}, {"a": Opaque()}, 2**64, -(2**63) - 1, [2**70], {1: 2}, 1j]
    refused(q.open(), {repr(event): event for event in events})


def test_nan_is_written_as_null(q: Queue) -> None:
    assert through(q.open(), [math.nan, math.inf]).raw == "[null,null]"


@pytest.mark.parametrize("size", [1, 2**20, 2**23], ids=["1 byte", "1 MiB", "8 MiB"])
def test_payloads_of_any_size(q: Queue, size: int) -> None:
    view = q.open()
    unit = "0123456789abcdef\u00e9\n"
    text = (unit * (size // len(unit) + 1))[:size]
    lease = through(view, text)
    assert lease.event == text


def test_large_payloads_beside_small_ones(q: Queue) -> None:
    view = q.open()
    sizes = [2**20, 1, 2**21, 2, 2**20, 3]
    view.publish_many([(f"g{n}", "x" * size) for n, size in enumerate(sizes)])
    leases = view.claim_many("w", 60, 10)
    assert sorted(len(lease.event) for lease in leases) == sorted(sizes)
    assert view.ack_many(leases) == []


# -- encode and decode -----------------------------------------------------------------------------------


@dataclass
class Event:
    """As a pydantic model: it writes and reads its own text."""

    n: int

    def model_dump_json(self) -> str:
        return f'{{ "n" : {self.n}.00 }}'

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        return cls(int(json.loads(text)["n"]))


def test_a_model_writes_its_own_text(q: Queue) -> None:
    lease = through(q.open(), Event(7))
    assert lease.raw == '{ "n" : 7.00 }'
    assert lease.event == {"n": 7.0}


def test_a_model_reads_its_own_text(q: Queue) -> None:
    lease = through(q.open(decode=Event.model_validate_json), Event(7))
    assert lease.event == Event(7)
    assert lease.raw == '{ "n" : 7.00 }'


@pytest.mark.parametrize("kind", [str, bytes])
def test_an_encoder_of_ones_own(q: Queue, kind: type[str | bytes]) -> None:
    def encode(event: object) -> Any:
        text = json.dumps(event, indent=2)
        return text if kind is str else text.encode()

    lease = through(q.open(encode=encode), {"a": [1]})
    assert lease.raw == '{\n  "a": [\n    1\n  ]\n}'
    assert lease.event == {"a": [1]}


def test_what_an_encoder_raises_is_the_callers(q: Queue) -> None:
    class Refused(Exception):
        pass

    def encode(event: object) -> bytes:
        raise Refused

    view = q.open(encode=encode)
    with pytest.raises((Refused, InvalidMessage)) as caught:
        view.publish("g", 1)
    assert isinstance(caught.value, Refused) or isinstance(caught.value.__cause__, Refused)
    assert view.claim("w") is None


def test_an_encoder_that_writes_no_json_is_refused(q: Queue) -> None:
    for text in (b"{", "{", b'"\xff"'):
        view = q.open(encode=lambda event, text=text: text)
        with pytest.raises(InvalidMessage):
            view.publish("g", 1)
        assert view.claim("w") is None


def test_decoding_is_done_at_the_first_look_and_once(q: Queue) -> None:
    seen: list[object] = []

    def decode(text: str | bytes) -> object:
        seen.append(text)
        return ("decoded", orjson.loads(text))

    view = q.open(decode=decode)
    view.publish("g", 1)
    lease = take(view)
    assert (lease.seq, lease.raw, seen) == (lease.seq, "1", [])
    repr(lease)
    assert seen == []
    assert lease.event == ("decoded", 1)
    assert lease.event is lease.event
    assert len(seen) == 1


def test_a_decoder_that_fails_leaves_the_lease_as_it_was(q: Queue) -> None:
    def decode(text: str | bytes) -> object:
        raise LookupError("no such event")

    view = q.open(decode=decode)
    view.publish("g", {"a": 1})
    view.publish("g", {"a": 2})
    lease = take(view)
    for _ in range(2):
        with pytest.raises(LookupError, match="no such event"):
            _ = lease.event
    assert lease.raw == '{"a":1}'
    view.extend(lease, 60)
    view.dead_letter(lease, "cannot be read")
    assert take(view).raw == '{"a":2}'


def test_two_transports_read_in_their_own_way(q: Queue) -> None:
    plain, typed = q.open(), q.open(decode=Event.model_validate_json)
    plain.publish("g", {"n": 3})
    lease = take(plain)
    assert lease.event == {"n": 3}
    plain.nack(lease)
    assert take(typed).event == Event(3)


def test_headers_come_back_as_they_were(q: Queue) -> None:
    headers = {
        "trace": "00-ab",
        "X'61'": "X'62'",
        "nul": "\x00",
        "emoji": "\U0001f600",
        "": "",
        "quote": "'\"",
    }
    view = q.open()
    view.publish("g", 1, headers=headers)
    assert take(view).headers == headers
