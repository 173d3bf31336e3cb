"""Watches a key with gRPC's own client, and prints `REVISION VALUE` for each change it is told.

Ends when the value is the last one wanted; else prints how the stream ended. Knows rondo.v1 from its
public field numbers alone.
"""
import argparse

import grpc


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def fields(data):
    """Numbers and values of a message: integers, or bytes."""
    at = 0

    def read():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(data):
        tag = read()
        value = read()
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        yield tag >> 3, value


def request(key, from_revision):
    key = key.encode()
    return b"\x12" + varint(len(key)) + key + b"\x18" + varint(from_revision)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--until", required=True)
    opts = parser.parse_args()
    channel = grpc.insecure_channel(opts.server)
    watch = channel.unary_stream("/rondo.v1.Coordination/WatchKeys")
    answers = watch(request(opts.key, 0))
    answers.initial_metadata()
    print("watching", flush=True)
    try:
        for answer in answers:
            for number, change in fields(answer):
                if number == 2:
                    change = dict(fields(change))
                    value = change.get(3, b"").decode()
                    print(change[2], value, flush=True)
                    if value == opts.until:
                        answers.cancel()
                        return
        print("ended with OK", flush=True)
    except grpc.RpcError as error:
        print("ended with", error.code().name, error.details(), flush=True)


main()
