"""The key-value store for processes that are no tasks, against a real server."""
import threading
import time

import pytest

import rondo
from conftest import PATIENCE_S, together


@pytest.fixture
def store(servers):
    server = servers()
    return server, rondo.KeyValueStore(server.address)


def test_it_does_what_an_agent_does_without_registering(store):
    server, keys = store
    revision = keys.set("hosts/0", "10.0.0.1:7000")
    assert keys.get("hosts/0") == b"10.0.0.1:7000" and keys.read("hosts/0") == (b"10.0.0.1:7000", revision)
    assert keys.insert("hosts/1", b"\x00\xff") > revision
    with pytest.raises(rondo.AlreadyExists, match="hosts/1"):
        keys.insert("hosts/1", "2")
    with pytest.raises(rondo.NotFound, match="hosts/2"):
        keys.update("hosts/2", "2")
    assert keys.directory("hosts") == {"hosts/0": b"10.0.0.1:7000", "hosts/1": b"\x00\xff"}
    assert (keys.increment("steps"), keys.increment("steps", 41)) == (1, 42)
    assert (keys.try_get("hosts"), keys.read("hosts"), keys.read("none")) == (None, None, None)
    second = keys.compare_and_swap("hosts/0", revision, "b")
    with pytest.raises(rondo.FailedPrecondition):
        keys.compare_and_swap("hosts/0", revision, "c")
    assert keys.read("hosts/0") == (b"b", second)
    keys.delete("hosts")
    assert keys.directory("hosts") == {}
    # A job of one task is there as ever: the store was nobody in it.
    with rondo.KeyValueStore(server.address) as other, pytest.raises(ValueError, match="timeout is -1"):
        other.get("steps", timeout=-1)
    with pytest.raises(rondo.FailedPrecondition, match="closed"):
        other.get("steps")


def test_a_watch_goes_on_over_the_servers_death(store):
    server, keys = store
    keys.set("hosts/0", "a")
    with keys.watch("hosts") as watch:
        assert [(it.key, it.value) for it in next(watch)] == [("hosts/0", b"a")]
        server.kill()
        threading.Timer(0.3, server.start).start()
        revision = keys.set("hosts/1", "b")
        (change,) = next(watch)
        assert (change.key, change.value, change.revision) == ("hosts/1", b"b", revision)
        # Two may watch one key.
        assert next(iter(keys.watch("hosts"))).whole


def test_increments_happen_once_whatever_becomes_of_the_server(store):
    server, _ = store
    ended = threading.Event()

    def kill():
        while not ended.wait(0.2):
            server.kill()
            server.start()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        stores = [rondo.KeyValueStore(server.address) for _ in range(4)]
        sums = together([lambda it=it: [it.increment("sum") for _ in range(150)] for it in stores])
    finally:
        ended.set()
        killer.join(PATIENCE_S)
    assert sorted(sum(sums, [])) == list(range(1, 601))


def test_a_server_that_is_not_there_or_goes_for_good_is_named(store):
    began = time.monotonic()
    with pytest.raises(rondo.Unavailable, match="at 127.0.0.1:1 within 500ms: is `rondo serve` there"):
        rondo.KeyValueStore("127.0.0.1:1", connect_timeout=0.5)
    assert time.monotonic() - began < PATIENCE_S
    server, _ = store
    with pytest.raises(rondo.InvalidArgument, match="patience is 3601s: 3600s at most"):
        rondo.KeyValueStore(server.address, patience=3601)
    keys = rondo.KeyValueStore(server.address, patience=0.5)
    server.kill()
    with pytest.raises(rondo.Unavailable, match=f":{server.port}: away for"):
        keys.set("key", "value")


@pytest.mark.parametrize("wait", ["keys.get('never')", "list(keys.watch('never'))"])
def test_ctrl_c_ends_what_waits(servers, interrupted, wait):
    said = interrupted(f"""
        import rondo

        keys = rondo.KeyValueStore("{servers().address}")
        print("waiting", flush=True)
        try:
            {wait}
        except KeyboardInterrupt:
            keys.set("after", "1")
            print("interrupted, and", keys.get("after"), flush=True)
        """)
    assert "interrupted, and b'1'" in said
