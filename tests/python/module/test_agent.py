"""The coordination agent against a real server."""
import os
import pickle
import threading
import time

import pytest

import rondo
from conftest import PATIENCE_S, together


def test_a_key_is_put_read_counted_and_deleted(tasks):
    _, (one, other) = tasks(2)
    assert one.state == "running" and one.life == other.life
    revision = one.set("hosts/0", "10.0.0.1:7000")
    assert other.get("hosts/0") == b"10.0.0.1:7000"
    assert other.set("hosts/1", b"\x00\xff") > revision
    assert one.directory("hosts") == {"hosts/0": b"10.0.0.1:7000", "hosts/1": b"\x00\xff"}
    assert one.increment("steps") == 1
    assert other.increment("steps", 41) == 42
    other.delete("hosts")
    assert one.try_get("hosts/0") is None and one.directory("hosts") == {}


def test_a_task_that_no_job_can_have_is_refused_at_once():
    for task in (-1, 65_536):
        with pytest.raises(rondo.InvalidArgument, match=f"task is {task}: .* from 0 to 65535"):
            rondo.Agent("127.0.0.1:1", task)


def test_conditions_hold(tasks):
    _, (agent,) = tasks(1)
    first = agent.insert("key", "1")
    with pytest.raises(rondo.AlreadyExists, match="key"):
        agent.insert("key", "2")
    with pytest.raises(rondo.NotFound) as caught:
        agent.update("other", "2")
    assert caught.value.code is rondo.Code.NOT_FOUND and "other" in str(caught.value)
    second = agent.compare_and_swap("key", first, "3")
    with pytest.raises(rondo.FailedPrecondition):
        agent.compare_and_swap("key", first, "4")
    assert agent.get("key") == b"3" and second > first
    agent.set("key", "many")
    with pytest.raises(rondo.FailedPrecondition, match="many"):
        agent.increment("key")


def test_a_get_waits_and_others_run_meanwhile(tasks):
    _, (one, other) = tasks(2)
    ran = threading.Event()
    threading.Timer(0.2, lambda: (ran.set(), other.set("late", "there"))).start()
    assert one.get("late", timeout=PATIENCE_S) == b"there"
    assert ran.is_set()
    began = time.monotonic()
    with pytest.raises(rondo.DeadlineExceeded, match='"never"') as caught:
        one.get("never", timeout=0.2)
    assert 0.2 <= time.monotonic() - began < PATIENCE_S
    assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, RuntimeError)


def test_what_is_wrong_is_named(tasks):
    _, (agent,) = tasks(1)
    with pytest.raises(rondo.InvalidArgument, match="'?\"key\"'? is of the type int: give str or bytes"):
        agent.set("key", 3)
    with pytest.raises(ValueError, match="timeout is -1 s"):
        agent.get("key", timeout=-1)
    with pytest.raises(rondo.InvalidArgument, match="'late' is no code"):
        agent.report_error("late", "too late")
    with pytest.raises(rondo.InvalidArgument, match="99"):
        agent.report_error(99, "too late")


def test_a_barrier_lets_all_go_or_says_who_is_missing(tasks):
    _, agents = tasks(3)
    assert together([lambda agent=agent: agent.barrier("ready", 30) for agent in agents]) == [0, 0, 0]
    assert together([lambda agent=agent: agent.barrier("two", 30, [0, 2]) for agent in agents[::2]]) == [0, 0]
    with pytest.raises(rondo.DeadlineExceeded, match="ready"):
        agents[0].barrier("ready", 0.2)


def test_a_watch_tells_all_there_is_and_then_every_change(tasks):
    _, (one, other) = tasks(2)
    one.set("hosts/0", "a")
    with one.watch("hosts") as watch:
        told = next(watch)
        assert told.whole and [(it.key, it.value) for it in told] == [("hosts/0", b"a")]
        revision = other.set("hosts/1", "b")
        (change,) = next(watch)
        assert (change.key, change.value, change.revision) == ("hosts/1", b"b", revision)
        other.delete("hosts/0")
        (change,) = next(watch).changes
        assert change.key == "hosts/0" and change.value is None
        with pytest.raises(rondo.FailedPrecondition, match="hosts"):
            one.watch("hosts")
    assert list(watch) == []
    watch = one.watch("hosts")
    next(watch)
    threading.Timer(0.2, watch.close).start()
    assert list(watch) == []


def test_the_tasks_are_seen(tasks):
    _, agents = tasks(2)
    assert agents[0].task_state(1).state == "running"
    job = agents[0].job_state()
    assert {task: state.state for task, state in job.tasks.items()} == {0: "running", 1: "running"}
    alive = together([lambda agent=agent: agent.alive_tasks([0, 1]) for agent in agents])
    assert alive[0] == {0: agents[0].incarnation, 1: agents[1].incarnation}
    together([lambda agent=agent: agent.wait_for_all_tasks([]) for agent in agents])
    assert agents[0].devices() == []


def test_an_exception_is_told_to_the_others(tasks):
    heard = []
    _, (one, other) = tasks(2, on_error=heard.append)
    # Each has asked for errors by then.
    together([lambda agent=agent: agent.barrier("asked", 30) for agent in (one, other)])
    with pytest.raises(ZeroDivisionError):
        with one:
            1 / 0
    deadline = time.monotonic() + PATIENCE_S
    while other.state != "error" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "ZeroDivisionError: division by zero" in str(other.error)
    # The error itself, or, to one who asked too late, that nobody could be told of it.
    assert other.error.code in (rondo.Code.ABORTED, rondo.Code.FAILED_PRECONDITION)
    assert other.error.task == 0 or other.error.code is rondo.Code.FAILED_PRECONDITION
    while not any(isinstance(error, rondo.RondoError) for error in heard):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(rondo.RondoError):
        other.barrier("ready", 1)


def test_all_leave_together(servers):
    server = servers("--tasks=2")

    def task(number):
        with rondo.Agent(server.address, number) as agent:
            agent.barrier("ready", 30)
            return agent

    for agent in together([lambda number=number: task(number) for number in range(2)]):
        with pytest.raises(rondo.FailedPrecondition, match="closed"):
            agent.get("key")
        assert "closed" in repr(agent)


def test_calls_outlive_the_servers_death(tasks):
    server, (agent,) = tasks(1)
    agent.set("key", "1")
    server.kill()
    threading.Timer(0.3, server.start).start()
    assert agent.get("key", timeout=PATIENCE_S) == b"1"
    assert agent.increment("count") == 1


def test_a_server_that_is_not_there_is_unavailable():
    agent = rondo.Agent("127.0.0.1:1", 0, direct=True, register_timeout=0.3)
    with pytest.raises(rondo.RondoError) as caught:
        agent.connect()
    assert caught.value.code in (rondo.Code.UNAVAILABLE, rondo.Code.DEADLINE_EXCEEDED)
    assert "127.0.0.1:1" in str(caught.value) or "register" in str(caught.value).lower()


@pytest.mark.parametrize("wait", [
    "agent.get('never')", "agent.barrier('never', 600)", "list(agent.watch('never'))"])
def test_ctrl_c_ends_what_waits(servers, interrupted, wait):
    server = servers("--tasks=2")
    said = interrupted(f"""
        import threading
        import rondo

        agents = [rondo.Agent("{server.address}", task) for task in range(2)]
        threads = [threading.Thread(target=agent.connect) for agent in agents]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        agent = agents[0]
        print("waiting", flush=True)
        try:
            {wait}
        except KeyboardInterrupt:
            agent.set("after", "1")
            print("interrupted, and", agent.get("after"), flush=True)
        """)
    assert "interrupted, and b'1'" in said


def test_a_fork_needs_an_agent_of_its_own(tasks):
    server, (agent,) = tasks(1)
    agent.set("key", "1")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                agent.get("key")
            except rondo.FailedPrecondition as error:
                assert "open it here" in str(error), error
            own = rondo.Agent(server.address, 0, job="another")
            assert own.state == "disconnected"
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert agent.get("key") == b"1"


def test_errors_are_what_they_say():
    from rondo import errors
    for code in rondo.Code:
        error = errors._of(int(code), "the text", None)
        assert error.code is code and str(error) == "the text"
        # A DataLoader makes it again from its text in another process.
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == "the text"
    lost = errors._of(int(rondo.Code.UNAVAILABLE), "gone", 3)
    assert isinstance(lost, rondo.PeerLost) and isinstance(lost, ConnectionError) and lost.task == 3
