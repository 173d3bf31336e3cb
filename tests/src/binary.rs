//! The binary under test, built once.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// Path of the `rondo` binary: `RONDO_BIN` if that is set, else built from this checkout in the
/// profile and target directory that the tests themselves were built in.
///
/// # Panics
/// When it cannot be built.
pub fn rondo() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| env::var_os("RONDO_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own executable");
    let mut cargo = cargo();
    cargo.args(["build", "--package", "rondo", "--bin", "rondo"]);
    cargo.arg("--message-format=json-render-diagnostics");
    if test.components().any(|part| part.as_os_str() == "release") {
        cargo.arg("--release");
    }
    if let Some(folder) = foreign_target(&test) {
        cargo.arg("--target-dir").arg(folder);
    }
    let output = cargo.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rondo does not build:\n{errors}");
    let lines = String::from_utf8_lossy(&output.stdout);
    executable(&lines).unwrap_or_else(|| panic!("cargo built no executable `rondo`:\n{errors}"))
}

/// The running cargo, in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    without_package(&mut cargo);
    cargo
}

/// Takes away what cargo tells a test of its own package. To some build scripts, ring's for one, it would
/// be a change: all above them would be built again here, and again by whoever builds next.
pub(crate) fn without_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
}

/// The root of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the checkout")
}

/// The executable named `rondo` in cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut found = None;
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let is_rondo = message["target"]["name"] == "rondo";
        if let (true, Some(path)) = (is_rondo, message["executable"].as_str()) {
            found = Some(PathBuf::from(path));
        }
    }
    found
}

/// The target directory the test lies in, if a cargo started now would choose another one (because
/// `--target-dir` was given on the command line, which no environment variable repeats).
pub(crate) fn foreign_target(test: &Path) -> Option<PathBuf> {
    let output = cargo().args(["metadata", "--no-deps", "--format-version=1"]).output().ok()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).ok()?;
    let usual = ["target_directory", "build_directory"];
    if usual
        .iter()
        .any(|key| metadata[*key].as_str().is_some_and(|folder| test.starts_with(folder)))
    {
        return None;
    }
    // <target>/<profile>/deps/<test>
    test.ancestors().nth(3).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let messages = "Compiling rondo\n\
            {\"target\":{\"name\":\"serde\"},\"executable\":null}\n\
            {\"target\":{\"name\":\"rondo\"},\"executable\":null}\n\
            {\"target\":{\"name\":\"rondo\"},\"executable\":\"/a/rondo\"}\n\
            {\"reason\":\"build-finished\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/a/rondo")));
        assert_eq!(executable("{\"target\":{\"name\":\"serde\"},\"executable\":\"/a\"}"), None);
    }
}
