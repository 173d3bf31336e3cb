//! Which crate may depend on what.

use super::Violation;
use super::tree::Manifest;

/// A crate of the house and the crates of the house it may depend on.
const DIRECTIONS: [(&str, &[&str]); 11] = [
    ("core", &[]),
    ("proto", &["rondo-core"]),
    ("runtime", &["rondo-core", "rondo-proto", "rondo-data", "rondo-tensor"]),
    ("runtime/data", &["rondo-core", "rondo-proto"]),
    ("runtime/python", &["rondo-core", "rondo-proto", "rondo-data", "rondo"]),
    ("runtime/tensor", &["rondo-core"]),
    ("runtime/torch", &["rondo-core", "rondo-tensor"]),
    ("sim", &["rondo-core", "rondo-proto", "rondo"]),
    ("sim/cost", &["rondo-sim"]),
    ("tests", &["rondo-core", "rondo-proto", "rondo-data", "rondo"]),
    ("fuzz", &["rondo-core", "rondo-data", "rondo-proto", "rondo"]),
];
/// The house's crates by name.
const HOUSE: [&str; 11] = [
    "rondo-core",
    "rondo-proto",
    "rondo-data",
    "rondo-python",
    "rondo-tensor",
    "rondo-torch",
    "rondo",
    "rondo-sim",
    "rondo-sim-cost",
    "rondo-tests",
    "rondo-fuzz",
];
/// Crates outside the workspace, which have lints of their own.
const OUTSIDE: [&str; 2] = ["fuzz", "runtime/torch"];
/// All that `core` may use from outside.
const CORE_ALLOWED: [&str; 6] =
    ["bytes", "indexmap", "rustc-hash", "serde", "serde_json", "thiserror"];
/// What `proto` may not use: it talks to nobody.
const PROTO_BANNED: [&str; 6] = ["tokio", "tonic", "sled", "rand", "madsim", "madsim-tokio"];

/// Checks all manifests.
pub(super) fn check(manifests: &[Manifest]) -> Vec<Violation> {
    manifests.iter().filter(|manifest| !manifest.room.is_empty()).flat_map(check_one).collect()
}

fn check_one(manifest: &Manifest) -> Vec<Violation> {
    let violation = |rule: String| Violation::new(&manifest.path, 1, rule);
    let room = manifest.room.as_str();
    let Some((_, allowed)) = DIRECTIONS.iter().find(|(known, _)| *known == room) else {
        return vec![violation(format!(
            "`{room}` is no room of the house: give it a place in tidy"
        ))];
    };
    let mut found = Vec::new();
    for (section, name) in dependencies(&manifest.table) {
        if HOUSE.contains(&name.as_str()) && !allowed.contains(&name.as_str()) {
            found.push(violation(format!("{room} must not depend on `{name}` ([{section}])")));
        }
        let foreign =
            room == "core" && section.ends_with("dependencies") && !section.contains("dev-");
        if foreign && !CORE_ALLOWED.contains(&name.as_str()) && !HOUSE.contains(&name.as_str()) {
            found.push(violation(format!(
                "core may not use `{name}`, only {}",
                CORE_ALLOWED.join(", ")
            )));
        }
        if room == "proto" && PROTO_BANNED.contains(&name.as_str()) {
            found.push(violation(format!("proto may not use `{name}`: it belongs to the runtime")));
        }
    }
    let inherits = manifest.table.get("lints").and_then(|lints| lints.get("workspace"));
    if !OUTSIDE.contains(&room) && inherits.and_then(toml::Value::as_bool) != Some(true) {
        found.push(violation(
            "the workspace's lints are not inherited: add `[lints] workspace = true`".into(),
        ));
    }
    found
}

/// Section and package of every dependency, build- and dev-dependencies and targets included.
fn dependencies(table: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (section, value) in table {
        let Some(inner) = value.as_table() else {
            continue;
        };
        if section.ends_with("dependencies") {
            found.extend(inner.iter().map(|(name, value)| (section.clone(), package(name, value))));
        } else if section == "target" {
            let targets = inner.values().filter_map(toml::Value::as_table);
            found.extend(targets.flat_map(dependencies));
        }
    }
    found
}

/// The package behind a dependency's name.
fn package(name: &str, value: &toml::Value) -> String {
    value.get("package").and_then(toml::Value::as_str).unwrap_or(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(room: &str, content: &str) -> Vec<String> {
        let table = format!("{content}\n[lints]\nworkspace = true\n").parse().unwrap();
        let path = format!("{room}/Cargo.toml");
        let found = check(&[Manifest { path, room: room.into(), table }]);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn dependencies_point_one_way() {
        for (room, dependency) in [
            ("core", "rondo-proto"),
            ("proto", "rondo"),
            ("runtime", "rondo-tests"),
            ("tests", "rondo-sim"),
        ] {
            let found = broken(room, &format!("[dependencies]\n{dependency}.workspace = true"));
            let wanted = format!("{room}/Cargo.toml:1: {room} must not depend on `{dependency}`");
            assert!(found.iter().any(|found| found.starts_with(&wanted)), "{found:?}");
        }
        let dev = broken("core", "[dev-dependencies]\nrondo-proto.workspace = true");
        assert_eq!(dev.len(), 1, "{dev:?}");
        let hidden = broken(
            "core",
            "[target.'cfg(unix)'.dependencies]\nx = { package = \"rondo\", path = \"\" }",
        );
        assert_eq!(hidden.len(), 1, "{hidden:?}");
        assert_eq!(broken("runtime", "[dependencies]\nrondo-core.workspace = true"), [""; 0]);
    }

    #[test]
    fn core_uses_six_crates_and_its_tests_more() {
        assert_eq!(broken("core", "[dependencies]\nbytes.workspace = true"), [""; 0]);
        assert_eq!(broken("core", "[dependencies]\ntokio.workspace = true").len(), 1);
        assert_eq!(broken("core", "[build-dependencies]\ncc = \"1\"").len(), 1);
        assert_eq!(broken("core", "[dev-dependencies]\nproptest.workspace = true"), [""; 0]);
        assert_eq!(broken("proto", "[dependencies]\ntonic.workspace = true").len(), 1);
    }

    #[test]
    fn lints_are_inherited_and_rooms_known() {
        let manifest = |room: &str, text: &str| Manifest {
            path: format!("{room}/Cargo.toml"),
            room: room.into(),
            table: text.parse().unwrap(),
        };
        assert_eq!(check(&[manifest("core", "")]).len(), 1);
        assert_eq!(check(&[manifest("core", "[lints]\nworkspace = false")]).len(), 1);
        assert_eq!(check(&[manifest("attic", "[lints]\nworkspace = true")]).len(), 1);
        assert_eq!(check(&[manifest("", "[workspace]")]), []);
    }
}
