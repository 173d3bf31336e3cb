"""Clusters found from Python: against what TensorFlow's own classes answered, against the command, and before
a server.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import threading
import time

import pytest

import rondo
from conftest import PATIENCE_S, binary, together
from rondo import cluster, errors

VECTORS = pathlib.Path(__file__).parents[2] / "vectors" / "cluster.json"
NAMES = {"tf.simple": "simple", "tf.union": "union", "tf.tfconfig": "tf_config", "tf.sagemaker": "sagemaker",
         "tf.slurm": "slurm"}
TF_CONFIG = json.dumps({
    "cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]}, "task": {"type": "worker", "index": 1}})
TORCH = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "MASTER_ADDR": "head", "MASTER_PORT": "29500"}


def settings_of(case):
    settings = dict(case.get("args", {}))
    for index, member in enumerate(settings.get("members", [])):
        settings["members"][index] = {**settings_of(member), "resolver": NAMES[member["resolver"]]}
    return settings


def cases():
    """Those of real classes that wanted nothing of the outside, where Rondo's is to answer the same."""
    for case in json.loads(VECTORS.read_text())["cases"]:
        if case["resolver"] in NAMES and not case.get("fake") and case["rondo"]["verdict"] == "same":
            yield pytest.param(case, id=case["id"])


def step(resolver, what, of):
    match what:
        case "task":
            return {"type": resolver.task_type, "id": resolver.task_id}
        case "rpc_layer" | "environment":
            return getattr(resolver, what)
        case "set":
            for name, value in of.items():
                setattr(resolver, name, value)
            return None
        case _:
            return getattr(resolver, what)(**of)


@pytest.mark.parametrize("case", list(cases()))
def test_a_resolver_answers_as_tensorflows(case, tmp_path):
    environment = {**case.get("env", {})}
    look = {"environment": environment, "root": str(tmp_path)}
    def made():
        return cluster.Resolver(NAMES[case["resolver"]], look=look, **settings_of(case))
    if isinstance(case["construct"], dict):
        with pytest.raises(rondo.RondoError):
            made().cluster_spec()
        return
    resolver = made()
    for it in case["steps"]:
        if it["do"] == "cuda_visible_devices":
            continue
        refused = isinstance(it["want"], dict) and "error" in it["want"]
        with pytest.raises(rondo.RondoError) if refused else contextlib.nullcontext():
            assert step(resolver, it["do"], it.get("args", {})) == it["want"], it


@pytest.mark.parametrize("environment", [
    {"TF_CONFIG": TF_CONFIG}, TORCH, {},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"},
    {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "head", "PET_NPROC_PER_NODE": "4"},
    {"TF_CONFIG": "{"}, {**TORCH, "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"},
])
def test_detection_tells_what_the_command_does(environment, tmp_path):
    found = cluster.detect(environment=environment, root=str(tmp_path))
    told = subprocess.run([binary(), "cluster", "--format", "json", "--root", tmp_path], env=environment,
                          capture_output=True, text=True, timeout=PATIENCE_S)
    wanted = json.loads(told.stdout)
    assert [source.name for source in found.sources] == [it["source"] for it in wanted["sources"]]
    for source, it in zip(found.sources, wanted["sources"]):
        assert (source.verdict, source.why, source.fault, source.finding) == \
            (it["verdict"], it["why"], it["fault"], it["finding"])
    assert found.contradictions == wanted["contradictions"] and found.hints == wanted["hints"]
    assert (found.chosen and found.chosen.source) == wanted["chosen"]
    if told.returncode == 0:
        assert found.settled() == found.chosen and found.chosen.accelerators == wanted["accelerators"]
        for form in ("env", "jax", "torchrun"):
            of = ["--export", form, "--root", tmp_path]
            script = f"eval \"$('{binary()}' cluster --export {form} --root {tmp_path})\"; env -0"
            shell = subprocess.run(script, shell=True, env={**environment, "PATH": os.environ["PATH"]},
                                   capture_output=True, text=True, timeout=PATIENCE_S).stdout
            exported = dict(line.split("=", 1) for line in shell.split("\0") if line)
            try:
                assert getattr(found.chosen, form)().items() <= exported.items(), of
            except rondo.NotFound as error:
                assert error.fault == "not_present"
    else:
        with pytest.raises(rondo.RondoError) as caught:
            found.settled()
        assert caught.value.fault in ("not_present", "malformed", "conflict")


def test_what_is_found_is_typed_and_says_what_it_lacks(tmp_path):
    found = cluster.find(environment={"TF_CONFIG": TF_CONFIG}, root=str(tmp_path))
    assert (found.source, found.task_type, found.task_id, found.master) == ("tf_config", "worker", 1, "b:2")
    assert found.spec == {"worker": ["a:1", "b:2"], "ps": ["c:3"]} and found.accelerators == {}
    assert json.loads(found.tf_config()) == json.loads(TF_CONFIG)
    assert (found.task, found.tasks) == (1, 3) and found.rank is None
    with pytest.raises(rondo.NotFound, match="size: the source tf_config does not tell it") as caught:
        found.jax()
    assert caught.value.fault == "not_present"
    found = cluster.find(environment=TORCH, root=str(tmp_path))
    assert (found.rank, found.size, found.local_rank, found.coordinator) == (2, 4, 0, "head:29500")
    assert found.server == "head:5050" and found.spec is None
    assert found.jax() == {"JAX_COORDINATOR_ADDRESS": "head:29500", "JAX_NUM_PROCESSES": "4",
                           "JAX_PROCESS_ID": "2", "JAX_LOCAL_DEVICE_IDS": "0"}
    with pytest.raises(rondo.NotFound, match="nothing tells of a cluster: `rondo cluster`"):
        cluster.find(environment={}, root=str(tmp_path))
    # An allocation is no step.
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2"}
    with pytest.raises(rondo.NotFound, match=r"nothing tells of a cluster \(slurm: ") as caught:
        cluster.find(environment=environment, root=str(tmp_path))
    assert caught.value.fault == "not_present"


def test_what_is_wrong_is_named():
    for wrong, words in [(lambda: cluster.Resolver("nonsense"), '"nonsense" is no resolver: there are'),
                         (lambda: cluster.Resolver("slurm", portbase=3), "portbase.*no setting"),
                         (lambda: cluster.find("file", {"path": 3}), "path"),
                         (lambda: cluster.find(timeout=-1), "timeout is -1"),
                         (lambda: rondo.Agent(cluster=3), "cluster=3"),
                         (lambda: rondo.Agent("localhost:5050"), 'no task is given.*cluster="auto"'),
                         (lambda: rondo.Reader("localhost:5050"), "no dataset")]:
        with pytest.raises(rondo.InvalidArgument, match=words):
            wrong()
    resolver = cluster.Resolver("tf_config", look={"environment": {"TF_CONFIG": TF_CONFIG}})
    with pytest.raises(rondo.NotFound, match="2") as caught:
        resolver.master("worker", 2)
    assert caught.value.fault == "no_such_task"
    with pytest.raises(errors.Unimplemented, match="cannot be set"):
        cluster.Resolver("gce", project="p", zone="z", instance_group="g", port=1).task_type = "ps"


def test_ctrl_c_ends_a_search(interrupted, tmp_path):
    pipe = tmp_path / "never"
    os.mkfifo(pipe)
    said = interrupted(f"""
        import rondo.cluster

        look = {{"timeout": 60, "request_timeout": 60}}
        resolver = rondo.cluster.Resolver("file", path="{pipe}", look=look)
        print("waiting", flush=True)
        try:
            resolver.cluster_spec()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            import os
            os._exit(0)
        """)
    assert "interrupted" in said


def test_agents_and_readers_find_their_server_and_announce_themselves(servers, monkeypatch):
    server = servers("--tasks=2")
    port = server.address.rsplit(":", 1)[1]
    def environment(index):
        spec = {"rondo": [f"127.0.0.1:{port}"], "worker": ["a:1", "b:2"]}
        return json.dumps({"cluster": spec, "task": {"type": "worker", "index": index}})

    monkeypatch.setenv("TF_CONFIG", environment(1))
    second = rondo.Agent(cluster="auto")
    assert (second.server, second.task) == (server.address, 1)
    # What is given counts more.
    assert rondo.Agent(cluster="auto", task=0).task == 0
    monkeypatch.setenv("TF_CONFIG", environment(0))
    found = cluster.find()
    first = rondo.Agent(cluster=found)
    assert (first.server, first.task, found.tasks) == (server.address, 0, 2)
    together([first.connect, second.connect])
    first.announce("10.0.0.1:7000")
    second.announce("10.0.0.2:7000")
    resolver = cluster.Resolver("rondo", server=server.address)
    assert list(resolver.cluster_spec().values()) == [["10.0.0.1:7000", "10.0.0.2:7000"]]
    with pytest.raises(rondo.InvalidArgument, match="address"):
        first.announce("")
    with pytest.raises(rondo.NotFound, match="nothing-there"):
        rondo.Reader(dataset="nothing-there", cluster="auto")
    for agent in (first, second):
        agent.close()
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(rondo.InvalidArgument, match="TF_CONFIG"):
        rondo.Agent(cluster="auto")


def test_others_run_while_it_is_looked(tmp_path):
    pipe = tmp_path / "late"
    os.mkfifo(pipe)
    began = time.monotonic()

    def write():
        time.sleep(0.3)
        pipe.write_text('{"worker": ["a:1"]}')

    # Were nobody to read, it would wait for ever.
    threading.Thread(target=write, daemon=True).start()
    assert cluster.Resolver("file", path=str(pipe)).cluster_spec() == {"worker": ["a:1"]}
    assert time.monotonic() - began >= 0.2
