//! What makes no sense is named: the variable or field, the text, and what would be right.

use crate::bed::Machine;

#[test]
fn a_variable_that_makes_no_sense_is_named_with_its_text() {
    for (variables, words) in [
        (&[("TF_CONFIG", "{\"cluster\": ")][..], &["TF_CONFIG", "no JSON", "{\\\"cluster"][..]),
        (&[("TF_CONFIG", "[1]")], &["TF_CONFIG", "[1]"]),
        (
            &[("TF_CONFIG", "{\"task\": {\"type\": \"worker\", \"index\": -1}}")],
            &["TF_CONFIG", "index", "-1"],
        ),
        (
            &[("RANK", "two"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "1")],
            &["RANK", "two"],
        ),
        (&[("SM_HOSTS", "a,b"), ("SM_CURRENT_HOST", "a")], &["SM_HOSTS", "a,b"]),
    ] {
        Machine::bare().run(variables, &[]).assert(2, words);
    }
}

#[test]
fn a_host_list_beyond_its_bound_is_refused_at_once() {
    let variables = [
        ("SLURM_PROCID", "0"),
        ("SLURM_STEP_NUM_TASKS", "1"),
        ("SLURM_STEP_NODELIST", "n[0-999999999]"),
        ("SLURM_STEP_TASKS_PER_NODE", "1"),
    ];
    let said = Machine::bare().run(&variables, &[]);
    said.assert(1, &["SLURM_STEP_NODELIST", "65536"]);
}

#[test]
fn flags_are_refused_with_what_would_be_right() {
    for (arguments, words) in [
        (&["--resolver", "slrum"][..], &["slrum", "slurm", "tf_config"][..]),
        (&["--resolver", "slurm", "--settings", "[1]"], &["--settings", "[1]", "object"]),
        (&["--resolver", "slurm", "--settings", "{"], &["--settings", "no JSON"]),
        (&["--resolver", "slurm", "--settings", "{\"prot\": 1}"], &["prot", "port_base"]),
        (&["--resolver", "file"], &["file.path"]),
        (&["--settings", "{}"], &["--resolver"]),
        (&["--export", "bash"], &["bash", "env", "tf_config", "jax", "torchrun"]),
        (&["--export", "env", "--watch"], &["--export", "--watch"]),
        (&["--port", "70000"], &["--port", "70000"]),
    ] {
        Machine::bare().run(&[], arguments).assert(2, words);
    }
}

#[test]
fn name_servers_that_do_not_answer_are_named() {
    let machine = Machine::bare().file("/etc/resolv.conf", "nameserver 127.0.0.1\n");
    let settings = r#"{"name": "_tf._tcp.train.invalid"}"#;
    let arguments = ["--resolver", "dns", "--settings", settings, "--timeout", "300ms"];
    machine.run(&[], &arguments).assert(7, &["_tf._tcp.train.invalid"]);
}
