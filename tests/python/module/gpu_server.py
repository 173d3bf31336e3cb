"""A server of an exchange on the first GPU, which does with each unit what the unit's first key says.

Run with the scheduler's address and its settings as JSON. Says `ready` once it takes part.
"""
import json
import sys

import torch

import rondo

# What a key asks for stands above its low 32 bits.
ANSWER, LATE, FROM_HOST, ROWS, SLOT, TELL, STOP = range(1, 8)
SLOTS, SLOT_BYTES = 3, 1 << 20
ROW_BYTES = 4099


def key(what, number=0):
    return what << 32 | number


def seconds(count):
    """Keeps the current stream busy for about so long."""
    torch.cuda._sleep(int(count * 1.8e9))


def inverted(tensor):
    """All bits the other way round."""
    flat = tensor.reshape(-1).view(torch.uint8)
    return (flat ^ 255).view(tensor.dtype).reshape(tensor.shape)


def rows():
    count = 64
    numbers = torch.arange(count * ROW_BYTES, device="cuda", dtype=torch.int64)
    return (numbers % 251).to(torch.uint8).reshape(count, ROW_BYTES)


class Server:
    """What it keeps between units."""

    def __init__(self, exchange):
        self.exchange = exchange
        self.rows = rows()
        self.slots = torch.zeros(SLOTS, SLOT_BYTES, dtype=torch.uint8, device="cuda")
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            exchange.register_recv_buffer(
                self.slots, [0] * SLOTS, [key(SLOT, number) for number in range(SLOTS)])
        self.seen = []

    def answer(self, unit):
        tensors = [inverted(tensor.torch().to("cuda")) for tensor in unit.tensors]
        self.exchange.respond(unit.handler, tensors[:len(unit.pulls)])

    def late(self, unit):
        with torch.cuda.stream(torch.cuda.Stream()):
            received = [tensor.torch().to("cuda") for tensor in unit.tensors]
            seconds(0.3)
            self.exchange.respond(unit.handler, [inverted(tensor) for tensor in received])

    def from_host(self, unit):
        tensors = [inverted(tensor.torch().to("cpu")) for tensor in unit.tensors]
        self.exchange.respond(unit.handler, tensors)

    def some_rows(self, unit):
        first, (_, length) = unit.keys[0] & 0xFFFF, unit.pulls[0]
        self.exchange.respond_rows(self.rows, [(unit.handler, first, length // ROW_BYTES)])

    def slot(self, unit):
        """Answers while its stream has still to read the slot."""
        with torch.cuda.stream(self.stream):
            seconds(0.2)
            number = unit.keys[0] & 0xFFFF
            assert unit.tensors[0].pointer == self.slots[number].data_ptr()
            self.seen.append(self.slots[number].clone())
        self.exchange.respond(unit.handler, [])

    def tell(self, unit):
        with torch.cuda.stream(self.stream):
            self.exchange.respond(unit.handler, [torch.cat(self.seen)])
        self.seen = []

    def serve(self):
        does = {ANSWER: self.answer, LATE: self.late, FROM_HOST: self.from_host, ROWS: self.some_rows,
                SLOT: self.slot, TELL: self.tell}
        while True:
            for unit in self.exchange.get_batch():
                what = unit.keys[0] >> 32
                if what == STOP:
                    self.exchange.respond(unit.handler, [])
                    return
                does[what](unit)


def main():
    exchange = rondo.Exchange("server", sys.argv[1], cuda=True, **json.loads(sys.argv[2]))
    server = Server(exchange)
    print("ready", flush=True)
    server.serve()
    exchange.stop(60)
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
