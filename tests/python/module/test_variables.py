"""Variables of the environment that nearly have the name of a setting."""
import json
import os
import subprocess
import sys
import textwrap

import pytest

from conftest import PATIENCE_S


def run(program, variables):
    """Runs a program in a process of its own, with these variables of Rondo's and no others."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("RONDO_") and name != "PYTHONWARNINGS"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env={**kept, **variables},
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def warned(variables):
    """What the import of both modules warns of: (category, text, file) each."""
    done = run("""
        import importlib, json, warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import rondo
            import fserver_lib
            importlib.reload(rondo)
        found = [(it.category.__name__, str(it.message), it.filename) for it in caught]
        print(json.dumps([it for it in found if "environment's" in it[1]]))
        """, variables)
    return [tuple(it) for it in json.loads(done.stdout)]


@pytest.mark.parametrize("wrong, right", [
    ("RONDO_INSECUR", "RONDO_INSECURE"),  # of the module
    ("RONDO_SPIN_SU", "RONDO_SPIN_US"),
    ("RONDO_TASK", "RONDO_TASKS"),  # of the command line
    ("RONDO_RNAK", "RONDO_RANK"),  # of `rondo cluster --export env`
])
def test_a_mistyped_variable_is_told_once(wrong, right):
    text = f"the environment's {wrong} (\"4\") is no setting; is {right} meant?"
    assert warned({wrong: "4"}) == [("UserWarning", text, "<string>")]


def test_each_mistyped_variable_is_told():
    told = warned({"RONDO_TASK": "4", "RONDO_INSECUR": "true", "RONDO_RANK": "0"})
    assert sorted(text.split()[2] for _, text, _ in told) == ["RONDO_INSECUR", "RONDO_TASK"]


def test_right_variables_and_those_of_others_are_not_told():
    right = {"RONDO_INSECURE": "true", "RONDO_SPIN_US": "0", "RONDO_TASKS": "4", "RONDO_RANK": "0",
             "RONDO_CLIENT_TIMEOUT_MS": "20"}
    others = {"RONDO_SERVICE_HOST": "10.0.0.1", "RONDO_PORT_5050_TCP": "tcp://10.0.0.1:5050", "TASKS": "4",
              "ONDO_TASKS": "4"}
    assert warned({**right, **others}) == []


def test_python_shows_it_unless_it_is_told_otherwise():
    shown = run("import rondo", {"RONDO_TASK": "4"}).stderr
    assert "UserWarning: the environment's RONDO_TASK" in shown and "is RONDO_TASKS meant?" in shown
