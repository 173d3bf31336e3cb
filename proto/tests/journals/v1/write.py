"""Writes the golden journal and the golden snapshot of format version 1.

Uses nothing of Rondo's: the field numbers and wire types below were copied by hand from the .proto files,
and the envelopes from the tables in `frame/envelope.rs` and `store/snapshot.rs`. The two files it writes are
committed, and every later release must read them. A kind or a field that is added later is appended
at the end of a list below; the bytes before it never change.

    python3 write.py
"""

import pathlib
import struct

# Protocol buffers.


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def key(number, wire_type):
    return varint(number << 3 | wire_type)


def num(number, value):
    """int32, int64, uint32, uint64, bool, enum; a negative int32 has ten bytes."""
    return key(number, 0) + varint(value)


def zig(number, value):
    """sint64."""
    return num(number, value << 1 if value >= 0 else (-value << 1) - 1)


def fixed(number, value):
    """fixed64, sfixed64."""
    return key(number, 1) + struct.pack("<Q", value & (1 << 64) - 1)


def raw(number, value):
    """bytes, string, message, and packed lists of numbers."""
    value = value.encode() if isinstance(value, str) else value
    return key(number, 2) + varint(len(value)) + value


def msg(number, *fields):
    return raw(number, b"".join(fields))


def nums(number, *values):
    return raw(number, b"".join(varint(value) for value in values))


def fixeds(number, *values):
    return raw(number, b"".join(struct.pack("<Q", value) for value in values))


def digest(first):
    return bytes((first + at) & 0xFF for at in range(32))


# Values of the dispatcher.

DEFINITION_INLINE = (raw(1, digest(1)), num(2, 5), raw(3, b"graph"))
DEFINITION_BLOB = (raw(1, digest(2)), num(2, 70000))
SOURCE_DOWN = (zig(1, 9), zig(2, -4), zig(3, -3))
SOURCE_UP = (zig(1, -70), zig(2, 300), zig(3, 2))
SPLITTABLE = msg(1, msg(1, *SOURCE_DOWN), msg(1, *SOURCE_UP))
UNSPLITTABLE = msg(2, num(1, 12), raw(2, "no splits"))


def metadata(compression, cardinality):
    fields = [raw(1, b"metadata"), raw(2, digest(3))]
    if compression:
        fields.append(num(3, compression))
    return fields + [num(4, cardinality)]


PROFILE = (
    fixed(1, -8),
    raw(2, "tag a"),
    raw(2, "tag b"),
    msg(3, raw(1, "grpc"), raw(2, "host:1"), raw(3, b"info"), num(4, 1)),
    msg(3, raw(1, "local"), raw(2, "host:2"), raw(3, b"more"), num(5, 1)),
)
RANGES = lambda number: msg(number, num(1, 1), num(2, 4)) + msg(number, num(1, 8), num(2, 9))
SAVED = lambda number: msg(number, num(1, 31), num(2, 32)) + msg(number, num(1, 33))
REPETITION = lambda number: msg(
    number, num(1, 6), msg(2, num(1, 2), num(2, 41)), msg(2, num(2, 42)), SAVED(3)
)
POSITIONS = lambda number: msg(
    number, msg(1, *SOURCE_DOWN), num(2, 3), num(3, 2)
) + msg(number, msg(1, *SOURCE_UP), num(2, 5))

# Values of the coordination service.

FAULT = (num(1, 9), raw(2, "task 3 failed"), num(3, 1), num(4, 3))
FAULT_OF_NOBODY = (num(1, 14), raw(2, "all failed"))
STAMP = (fixed(1, 71), num(2, 72), num(3, 70))
INLINE = raw(1, b"value")
BLOB = msg(2, raw(1, digest(4)), num(2, 80000))
OWN = lambda number, own: msg(number, num(1, own))
NAMED = lambda number: msg(number, raw(2, "epoch"))

# Records.


def dispatcher(kind, *fields):
    return msg(1, msg(1, msg(kind, *fields)))


def coordination(kind, *fields):
    return msg(1, msg(2, msg(kind, *fields)))


def create_job(sharding, target, consumers, *flags):
    return dispatcher(
        5,
        num(1, 5000),
        raw(2, "job"),
        raw(3, "dataset"),
        *([num(4, sharding)] if sharding else []),
        *([] if consumers is None else [num(5, consumers)]),
        *([num(6, 1)] if flags[0] else []),
        *([num(7, target)] if target else []),
        *([num(8, 1)] if flags[1] else []),
        fixed(9, 1001),
    )


DISPATCHER = [
    dispatcher(
        1,
        raw(1, "first"),
        msg(2, *DEFINITION_INLINE),
        msg(3, SPLITTABLE),
        msg(4, *metadata(1, -2)),
        fixed(5, 1002),
    ),
    dispatcher(
        1,
        raw(1, "second"),
        msg(2, *DEFINITION_BLOB),
        msg(3, UNSPLITTABLE),
        msg(4, *metadata(3, 7)),
        fixed(5, 1003),
    ),
    dispatcher(2, raw(1, "first"), num(2, 1)),
    dispatcher(3, num(1, 11), raw(2, "worker:1"), msg(3, *PROFILE)),
    dispatcher(4, num(1, 12), msg(2, *PROFILE)),
    create_job(0, 3, 4, False, True),
    create_job(1, 2, None, True, False),
    create_job(2, 1, 0, True, True),
    create_job(3, 0, None, False, False),
    create_job(4, 0, None, False, False),
    create_job(5, 0, None, False, False),
    dispatcher(6, num(1, 2000), num(2, 5000), num(3, 6), msg(4, *SOURCE_DOWN), msg(4, *SOURCE_UP)),
    dispatcher(7, num(1, 4000), num(2, 2000), num(3, 11)),
    dispatcher(8, num(1, 4001), num(2, 2000), num(3, 12), num(4, 17)),
    dispatcher(9, num(1, 3000), num(2, 2000), fixed(3, 1004)),
    dispatcher(10, num(1, 3000), fixed(2, 1005)),
    dispatcher(11, num(1, 2000), num(2, 1), num(3, 6), num(5, 4000)),
    dispatcher(11, num(1, 2000), num(2, 2), num(3, 7), num(4, 1)),
    dispatcher(12, num(1, 2000), num(2, 18)),
    dispatcher(13, num(1, 2000), num(2, 3000)),
    dispatcher(14, num(1, 4000)),
    dispatcher(15, num(1, 4001)),
    dispatcher(16, num(1, 2000), fixed(2, 1006)),
    dispatcher(40, num(1, 11), num(2, 1)),
    dispatcher(41, num(1, 11), num(2, 1)),
    dispatcher(42, num(1, 11), num(2, 1)),
    dispatcher(43, num(1, 2000), num(2, 1), num(3, 6), num(4, 4000)),
    dispatcher(43, num(1, 2000), num(2, 1), num(3, 6)),
    dispatcher(50, num(1, 2000), fixed(2, 1007)),
    dispatcher(51, num(1, 5000), fixed(2, 1008)),
    dispatcher(52, raw(1, "first")),
    dispatcher(53, num(1, 5000), fixed(2, 1009)),
    dispatcher(54, raw(1, "second"), fixed(2, 1010)),
    dispatcher(55, num(1, 2001), num(2, 5000), num(3, 6)),
    dispatcher(56, num(1, 2002), num(2, 5000), num(3, 6), POSITIONS(4), SAVED(5)),
    dispatcher(57, raw(1, "best"), raw(2, "job"), fixed(3, 1011), RANGES(4), REPETITION(5)),
    dispatcher(58, raw(1, "best"), raw(2, "job"), fixed(3, 1012)),
    dispatcher(59, raw(1, "best")),
    dispatcher(
        60,
        num(1, 3000),
        msg(2, num(1, 21), num(2, 22), num(3, 1)),
        msg(2, num(1, 23), num(2, 24)),
        nums(3, 25, 300),
        num(4, 2),
    ),
    dispatcher(61, num(1, 2000), num(2, 26), num(3, 4000)),
    dispatcher(61, num(1, 2000), num(2, 27)),
    dispatcher(62, num(1, 2000)),
    dispatcher(63, num(1, 2000), num(2, 3), num(3, 6), num(4, 28), num(5, 4000)),
    dispatcher(63, num(1, 2000), num(2, 3), num(3, 6), num(4, 29)),
    dispatcher(15, num(1, 4001), num(2, 1)),
    dispatcher(64, num(1, 5001), fixed(2, 1013)),
    dispatcher(65, num(1, 2003), fixed(2, 1014)),
    dispatcher(66, num(1, 13)),
    dispatcher(67, raw(1, "job"), fixed(2, 1015)),
    dispatcher(57, raw(1, "given up"), raw(2, "job"), fixed(3, 1016), RANGES(6)),
    dispatcher(68, num(1, 700_000)),
    dispatcher(
        69,
        raw(1, "first"),
        raw(2, "first@3"),
        msg(3, *DEFINITION_INLINE),
        msg(4, SPLITTABLE),
        msg(5, *metadata(1, -2)),
        fixed(6, 1017),
    ),
]

COORDINATION = [
    coordination(1, num(1, 1), raw(2, "trainers"), fixed(3, 51), num(4, 8), fixed(5, 2001)),
    coordination(1, num(1, 2), raw(2, "others"), fixed(3, 52), fixed(5, 2002)),
    coordination(2, num(1, 2), num(2, 16)),
    coordination(3, num(1, 4), num(2, 3), fixed(3, 61), num(4, 1), num(5, 2), fixed(6, 2003)),
    coordination(4, num(1, 1), num(2, 3), fixed(3, 61), num(4, 1), num(5, 2), fixed(6, 2004)),
    coordination(4, num(1, 1), num(2, -1), fixed(3, 62), fixed(6, 2005)),
    coordination(5, num(1, 1), num(2, 3), fixed(3, 2006)),
    coordination(6, num(1, 1), num(2, 3), msg(3, *FAULT), fixed(4, 2007)),
    coordination(7, num(1, 1), msg(2, *FAULT_OF_NOBODY), fixed(3, 2008)),
    coordination(8, num(1, 1)),
    coordination(9, num(1, 1), msg(2, *FAULT)),
    coordination(10, num(1, 1), num(2, 3), raw(3, b"devices")),
    coordination(
        11,
        num(1, 1),
        NAMED(2),
        num(3, 5),
        num(4, 3),
        msg(5, *STAMP),
        msg(6, msg(1, nums(2, 3, 4, 6)), num(2, 60000)),
        fixed(7, 2009),
    ),
    coordination(11, num(1, 1), OWN(2, 2), num(3, -6), num(4, 4), fixed(7, 2010)),
    coordination(
        11, num(1, 1), OWN(2, 0), num(3, 7), num(4, 5), msg(6, msg(1, num(1, 1)), num(2, 61)), fixed(7, 2011)
    ),
    coordination(12, num(1, 1), NAMED(2), num(3, 4)),
    coordination(13, num(1, 1), OWN(2, 1), num(3, 5), msg(4, *FAULT), fixed(5, 2012)),
    coordination(13, num(1, 1), NAMED(2), num(3, 5), fixed(5, 2013)),
    coordination(14, num(1, 1), raw(2, "a/b"), msg(3, INLINE), num(4, 0)),
    coordination(14, num(1, 1), raw(2, "a/c"), msg(3, BLOB)),
    coordination(15, num(1, 1), raw(2, "a/b")),
    coordination(16, num(1, 1), num(2, 3)),
    coordination(17, num(1, 1), fixed(2, 71), num(3, 73), num(4, 72), msg(5, num(1, 81))),
    coordination(17, num(1, 1), fixed(2, 71), num(3, 74), num(4, 72), msg(5, num(2, 82))),
    coordination(
        17, num(1, 1), fixed(2, 71), num(3, 75), num(4, 72), msg(5, msg(3, raw(1, b"9"), num(2, 83)))
    ),
    coordination(
        17, num(1, 1), fixed(2, 71), num(3, 76), num(4, 72), msg(5, msg(4, num(1, 5), msg(2, *FAULT)))
    ),
    coordination(17, num(1, 1), fixed(2, 71), num(3, 77), num(4, 72), msg(5, msg(4, num(1, 6)))),
    coordination(17, num(1, 1), fixed(2, 71), num(3, 78), num(4, 72), msg(5, msg(5))),
    coordination(18, num(1, 1), fixeds(2, 71, 79)),
]
# Every status code.
COORDINATION += [
    coordination(9, num(1, 3), msg(2, num(1, code), raw(2, "code"))) for code in range(1, 17)
]
ALIVE = (
    msg(1, num(1, 3), fixed(2, 61)),
    msg(1, num(1, 4), fixed(2, 64)),
    msg(2, *STAMP),
    msg(2, fixed(1, 79), num(2, 74), num(3, 70)),
)
COORDINATION += [coordination(19, num(1, 1), msg(2, *ALIVE))]

# Parts of a snapshot.


def dispatcher_part(kind, *fields):
    return msg(1, msg(kind, *fields))


def coordination_part(kind, *fields):
    return msg(2, msg(kind, *fields))


def runs(number):
    """Runs of one set, in order."""
    return msg(number, num(1, 1), num(2, 6), num(3, 90), num(4, 5)) + msg(
        number, num(1, 2), num(2, 7), num(3, 91), num(4, 3)
    )


BARRIER_OPEN = (
    NAMED(1) + num(2, 5),
    msg(3, nums(2, 3, 4)),
    fixed(4, 2101),
    num(5, 60000),
    num(6, 3),
    msg(7, num(1, 3), fixed(2, 2102), msg(3, *STAMP)),
    msg(7, num(1, 4), fixed(2, 2103)),
    num(9, 201),
)

PARTS = [
    dispatcher_part(1, num(1, 1001), num(2, 13), num(3, 5001), num(4, 2003), num(5, 3001), num(6, 4002)),
    dispatcher_part(
        2,
        raw(1, "first"),
        msg(2, *DEFINITION_INLINE),
        msg(3, SPLITTABLE),
        msg(4, *metadata(2, -1)),
        num(5, 1),
        num(6, 202),
        fixed(7, 1101),
    ),
    dispatcher_part(
        2,
        raw(1, "second"),
        msg(2, *DEFINITION_BLOB),
        msg(3, UNSPLITTABLE),
        msg(4, *metadata(0, 8)),
        num(6, 203),
        fixed(7, 1102),
    ),
    dispatcher_part(3, num(1, 11), raw(2, "worker:1"), msg(3, *PROFILE), num(4, 204), num(5, 1)),
    dispatcher_part(
        4,
        num(1, 5000),
        raw(2, "job"),
        raw(3, "dataset"),
        num(4, 5),
        num(5, 4),
        num(6, 1),
        num(7, 2),
        num(8, 205),
        fixed(10, 1103),
        fixed(11, 1104),
        RANGES(12),
    ),
    dispatcher_part(
        4,
        num(1, 5001),
        raw(2, "other"),
        raw(3, "first"),
        num(8, 206),
        num(9, 1),
        fixed(10, 1105),
        fixed(11, 1106),
    ),
    dispatcher_part(
        5,
        num(1, 2000),
        num(2, 5000),
        num(3, 6),
        POSITIONS(4),
        nums(5, 4000, 4001),
        msg(6, num(1, 4002), num(2, 17), num(3, 2), nums(4, 3000, 3001)),
        msg(6, num(1, 4003), num(2, 18), num(3, 1)),
        fixed(7, 1107),
        num(8, 1),
        num(10, 207),
        num(11, 208),
        msg(
            40,
            num(1, 301),
            msg(2, num(1, 302), num(2, 309), num(3, 4)),
            num(3, 303),
            runs(4),
            num(5, 8),
            msg(6, num(1, 11), num(2, 304)),
            msg(6, num(1, 12), num(2, 305)),
        ),
        msg(41, SAVED(1), num(2, 2), num(3, 306)),
    ),
    dispatcher_part(
        5,
        num(1, 2001),
        num(2, 5001),
        num(3, 7),
        num(9, 1),
        num(10, 209),
        num(11, 210),
        msg(40, num(1, 311), msg(2), num(3, 312)),
        msg(41, num(3, 307)),
    ),
    dispatcher_part(5, num(1, 2002), num(2, 5002), num(3, 8), num(10, 211), num(11, 212)),
    dispatcher_part(6, num(1, 3000), num(2, 2000), fixed(3, 1108), num(4, 213), SAVED(5)),
    dispatcher_part(
        7, num(1, 4000), num(2, 2000), num(3, 11), num(4, 17), msg(40, runs(1), num(2, 321), num(3, 322))
    ),
    dispatcher_part(7, num(1, 4001), num(2, 2001), num(3, 12), num(5, 1)),
    dispatcher_part(
        50, raw(1, "best"), raw(2, "job"), fixed(3, 1109), RANGES(4), REPETITION(5), num(6, 214)
    ),
    dispatcher_part(51, raw(1, "job"), raw(2, "best"), RANGES(3), REPETITION(4), num(5, 215)),
    dispatcher_part(
        4,
        num(1, 5003),
        raw(2, "third"),
        raw(3, "first"),
        num(4, 1),
        num(8, 217),
        fixed(10, 1110),
        fixed(11, 1111),
        msg(13, num(1, 3002), num(2, 2003), num(3, 9), SAVED(4)),
        msg(13, num(1, 3003), num(2, 2004), num(3, 10)),
    ),
    dispatcher_part(6, num(1, 3004), num(2, 2002), fixed(3, 1112), num(4, 218), num(6, 1)),
    dispatcher_part(
        4, num(1, 5004), raw(2, "fourth"), raw(3, "first"), num(8, 219), fixed(10, 1113), RANGES(14)
    ),
    dispatcher_part(52, raw(1, "freed"), RANGES(2), msg(3, num(1, 9), num(2, 9)), num(4, 220)),
    dispatcher_part(50, raw(1, "given up"), raw(2, "job"), fixed(3, 1114), num(6, 224), RANGES(7)),
    dispatcher_part(51, raw(1, "job"), raw(2, "given up"), num(5, 225), RANGES(6)),
    dispatcher_part(
        52, raw(1, "freed again"), num(4, 226), msg(5, num(1, 2), num(2, 1), num(3, 3))
    ),
    dispatcher_part(
        4,
        num(1, 5005),
        raw(2, "fifth"),
        raw(3, "first"),
        num(4, 1),
        num(8, 227),
        fixed(10, 1115),
        msg(13, num(1, 3005), num(2, 2005), num(3, 11), num(5, 228)),
    ),
    dispatcher_part(52, raw(1, "freed at last"), num(4, 230), raw(6, "first")),
    dispatcher_part(53, raw(1, "first"), raw(2, "first@3"), raw(3, "first@2"), raw(3, "first@3")),
    dispatcher_part(
        52, raw(1, "freed for good"), num(4, 231), raw(6, "first@2"), raw(7, b"\x07" * 32)
    ),
    dispatcher_part(
        50,
        raw(1, "of a version"),
        raw(2, "job"),
        fixed(3, 1116),
        num(6, 232),
        raw(8, "first@2"),
        raw(9, b"\x07" * 32),
    ),
    dispatcher_part(
        51,
        raw(1, "job"),
        raw(2, "of a version"),
        num(5, 233),
        raw(7, "first@2"),
        raw(8, b"\x07" * 32),
    ),
    dispatcher_part(
        4, num(1, 5007), raw(2, "sixth"), raw(3, "first"), num(8, 234), fixed(10, 1117), num(15, 5002)
    ),
    dispatcher_part(52, raw(1, "freed twice"), num(4, 235), num(8, 5008), num(9, 5006)),
    coordination_part(
        1,
        num(1, 1),
        raw(2, "trainers"),
        num(3, 4),
        fixed(4, 51),
        fixed(5, 2104),
        num(6, 8),
        num(7, 401),
        num(8, 1),
        msg(9, *FAULT),
        num(10, 402),
        num(11, 403),
        msg(12, num(1, 3), fixed(2, 61)),
        msg(12, num(1, 4), fixed(2, 62)),
        num(13, 216),
        num(14, 217),
    ),
    coordination_part(
        1,
        num(1, 2),
        raw(2, "others"),
        num(3, 5),
        fixed(4, 52),
        fixed(5, 2105),
        num(7, 404),
        num(10, 405),
        num(11, 406),
        num(13, 218),
        num(14, 219),
    ),
    coordination_part(2, num(1, 1), msg(2, num(1, 3), fixed(2, 61), num(3, 1), fixed(7, 2106), num(9, 220))),
    coordination_part(
        2,
        num(1, 1),
        msg(
            2,
            num(1, 4),
            fixed(2, 62),
            num(4, 1),
            num(5, 3),
            msg(6, *FAULT),
            fixed(7, 2107),
            raw(8, b"devices"),
            num(9, 221),
        ),
    ),
    coordination_part(
        2,
        num(1, 1),
        msg(2, num(1, 5), fixed(2, 63), num(4, 2), num(5, 1), fixed(7, 2108), raw(8, b""), num(9, 222)),
    ),
    coordination_part(2, num(1, 1), msg(2, num(1, 6), fixed(2, 64), num(5, 2), fixed(7, 2109), num(9, 223))),
    coordination_part(3, num(1, 1), msg(2, *BARRIER_OPEN)),
    coordination_part(
        3,
        num(1, 1),
        msg(
            2,
            OWN(1, 1),
            num(2, 6),
            msg(3, num(1, 1)),
            fixed(4, 2110),
            num(5, 61000),
            num(6, 4),
            msg(8, msg(1, *FAULT)),
            num(9, 224),
        ),
    ),
    coordination_part(
        3, num(1, 1), msg(2, OWN(1, 2), num(2, 7), fixed(4, 2111), num(5, 62000), msg(8), num(9, 225))
    ),
    coordination_part(
        4, num(1, 1), msg(2, raw(1, "a/b"), msg(2, INLINE), num(3, 407), num(4, 3), num(5, 226))
    ),
    coordination_part(4, num(1, 1), msg(2, raw(1, "a/c"), msg(2, BLOB), num(3, 408), num(5, 227))),
    coordination_part(5, num(1, 1), msg(2, raw(1, "a/b"), msg(2, INLINE), num(4, 409))),
    coordination_part(5, num(1, 1), msg(2, raw(1, "a/d"), num(3, 0), num(4, 410))),
    coordination_part(5, num(1, 1), msg(2, raw(1, "a"), num(3, 1), num(4, 411))),
    coordination_part(
        6,
        num(1, 1),
        fixed(2, 71),
        num(3, 72),
        msg(4, num(1, 73), msg(2, num(1, 81))),
        msg(4, num(1, 78), msg(2, msg(5))),
    ),
    coordination_part(7, num(1, 1), msg(2, *ALIVE)),
]

# Frames, as in the table of `frame/envelope.rs`.


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame(first, count, durable_upto, payload):
    header = b"\x89RondoJ\n" + struct.pack(
        "<IIQQQI", 1, len(payload), first, count, durable_upto, crc32c(payload)
    )
    whole = header + struct.pack("<I", crc32c(header)) + payload
    return whole + bytes(-len(whole) % 8)


def segment():
    out, first, durable = b"", 1, 0
    for records in (DISPATCHER, COORDINATION):
        out += frame(first, len(records), durable, b"".join(records))
        first += len(records)
        durable = first - 1
        out += frame(first, 0, durable, b"")
    # Space that was set aside.
    return out + bytes(256)


# BLAKE3, from its specification.

MASK = 0xFFFFFFFF
IV = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8


def mix(v, a, b, c, d, x, y):
    turn = lambda word, by: (word >> by | word << 32 - by) & MASK
    v[a] = v[a] + v[b] + x & MASK
    v[d] = turn(v[d] ^ v[a], 16)
    v[c] = v[c] + v[d] & MASK
    v[b] = turn(v[b] ^ v[c], 12)
    v[a] = v[a] + v[b] + y & MASK
    v[d] = turn(v[d] ^ v[a], 8)
    v[c] = v[c] + v[d] & MASK
    v[b] = turn(v[b] ^ v[c], 7)


def compress(chain, block, counter, length, flags):
    v = list(chain) + list(IV[:4]) + [counter & MASK, counter >> 32, length, flags]
    words = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    for _ in range(7):
        for at, (a, b, c, d) in enumerate(((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))):
            mix(v, a, b, c, d, words[2 * at], words[2 * at + 1])
        for at, (a, b, c, d) in enumerate(((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))):
            mix(v, a, b, c, d, words[8 + 2 * at], words[9 + 2 * at])
        words = [words[at] for at in PERMUTATION]
    return tuple(v[at] ^ v[at + 8] for at in range(8))


def tree(data, first_chunk, root):
    """The chaining value of a subtree."""
    if len(data) <= 1024:
        chain = IV
        blocks = [data[at : at + 64] for at in range(0, len(data), 64)] or [b""]
        for at, block in enumerate(blocks):
            last = at + 1 == len(blocks)
            flags = (CHUNK_START if at == 0 else 0) | (CHUNK_END | root if last else 0)
            chain = compress(chain, block, first_chunk, len(block), flags)
        return chain
    left = 1024
    while left * 2 < len(data):
        left *= 2
    both = tree(data[:left], first_chunk, 0) + tree(data[left:], first_chunk + left // 1024, 0)
    return compress(IV, struct.pack("<16I", *both), 0, 64, PARENT | root)


def blake3(data):
    return struct.pack("<8I", *tree(data, 0, ROOT))


assert blake3(b"").hex().startswith("af1349b9f5f9a1a6a0404dea36dcc949")
assert crc32c(b"123456789") == 0xE3069283

# The snapshot, as in the table of `store/snapshot.rs`.


def snapshot(last_record):
    header = b"\x89RondoS\n" + struct.pack("<IQ", 1, last_record)
    out = header + struct.pack("<I", crc32c(header))
    for part in PARTS:
        length = struct.pack("<I", len(part))
        out += length + struct.pack("<I", crc32c(length + part)) + part
    trailer = struct.pack("<IQ", MASK, len(PARTS)) + blake3(out)
    return out + trailer + struct.pack("<I", crc32c(trailer))


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    (here / "00000000000000000001.seg").write_bytes(segment())
    last = len(DISPATCHER) + len(COORDINATION)
    (here / f"{500:020}.snap").write_bytes(snapshot(500))
    print(f"{last} records, {len(PARTS)} parts")
