//! Licences and origins of what is built in: `deny.toml` says which are allowed. `cargo deny` looks closer,
//! at the files and for every platform: `.ci/night` runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]
#![cfg(not(madsim))]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What cargo says of all packages that are built on this platform.
fn packages() -> Vec<Value> {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().clone();
    assert!(packages.len() > 100, "{} packages", packages.len());
    packages
}

fn rules() -> toml::Table {
    std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn name(package: &Value) -> String {
    format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap())
}

fn is_own(package: &Value) -> bool {
    package["source"].is_null()
}

/// Why a licence is not allowed; `None` if it is.
fn complaint(licence: Option<&str>, allowed: &[&str]) -> Option<String> {
    let Some(licence) = licence else { return Some("names no licence".to_owned()) };
    match Expression::parse_mode(licence, ParseMode::LAX) {
        Err(error) => Some(format!("{licence:?} is no licence: {error}")),
        Ok(licences) => {
            let is_allowed = licences.evaluate(|one| allowed.contains(&one.to_string().as_str()));
            (!is_allowed).then(|| format!("{licence:?} is not allowed"))
        }
    }
}

#[test]
fn every_licence_is_allowed() {
    let rules = rules();
    let allowed = rules["licenses"]["allow"].as_array().unwrap();
    let allowed: Vec<&str> = allowed.iter().map(|it| it.as_str().unwrap()).collect();
    let packages = packages();
    let foreign = packages.iter().filter(|package| !is_own(package));
    let complaints: Vec<String> = foreign
        .filter_map(|package| {
            let why = complaint(package["license"].as_str(), &allowed)?;
            Some(format!("{}: {why}", name(package)))
        })
        .collect();
    assert!(complaints.is_empty(), "see deny.toml: {complaints:#?}");
}

#[test]
fn a_licence_is_judged_as_a_whole() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception"];
    for fine in ["MIT", "GPL-3.0-only OR MIT", "MIT/GPL-3.0", "Apache-2.0 WITH LLVM-exception"] {
        assert_eq!(complaint(Some(fine), &allowed), None);
    }
    for (licence, why) in [
        (None, "names no licence"),
        (Some("GPL-3.0-only AND MIT"), "not allowed"),
        (Some("Apache-2.0"), "not allowed"),
        (Some("whatever"), "is no licence"),
    ] {
        assert!(complaint(licence, &allowed).unwrap().contains(why), "{licence:?}");
    }
}

#[test]
fn every_package_comes_from_the_registry_and_none_is_banned() {
    let rules = rules();
    let banned = rules["bans"]["deny"].as_array().unwrap();
    let banned: Vec<&str> = banned.iter().map(|it| it["crate"].as_str().unwrap()).collect();
    for package in packages() {
        let (name, source) = (name(&package), package["source"].as_str());
        assert!(is_own(&package) || source == Some(REGISTRY), "{name} comes from {source:?}");
        assert!(
            !banned.contains(&package["name"].as_str().unwrap()),
            "{name} is banned by deny.toml"
        );
        if is_own(&package) {
            for dependency in package["dependencies"].as_array().unwrap() {
                let is_any = dependency["req"] == "*" && dependency["path"].is_null();
                assert!(!is_any, "{name} takes any version of {}", dependency["name"]);
            }
        }
    }
}
