//! Each fuzz target is built, described, and has inputs that tests replay.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Violation;
use super::tree::Text;

const TARGETS: &str = "fuzz/fuzz_targets/";
const MANIFEST: &str = "fuzz/Cargo.toml";
const DOCUMENT: &str = "docs/fuzzing.md";
/// Inputs that a corpus has at least.
const INPUTS_MIN: usize = 9;

/// Checks the fuzz targets of the checkout at `root`.
pub(super) fn check(root: &Path, texts: &[Text]) -> Vec<Violation> {
    let inputs = |target: &str| {
        let files = fs::read_dir(root.join("fuzz/corpus").join(target)).into_iter().flatten();
        let has_bytes = |file: &fs::DirEntry| file.metadata().is_ok_and(|it| it.is_file());
        files.flatten().filter(has_bytes).count()
    };
    let mut found = check_targets(texts, inputs);
    let targets = targets(texts);
    for folder in fs::read_dir(root.join("fuzz/corpus")).into_iter().flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        if !targets.contains(&*name) {
            let path = format!("fuzz/corpus/{name}");
            found.push(Violation::new(&path, 1, format!("there is no target {TARGETS}{name}.rs")));
        }
    }
    found
}

/// The targets' names.
fn targets(texts: &[Text]) -> BTreeSet<&str> {
    texts.iter().filter_map(|text| text.path.strip_prefix(TARGETS)?.strip_suffix(".rs")).collect()
}

fn check_targets(texts: &[Text], inputs: impl Fn(&str) -> usize) -> Vec<Violation> {
    let content = |path: &str| {
        texts.iter().find(|text| text.path == path).map_or("", |text| text.content.as_str())
    };
    let (manifest, document) = (content(MANIFEST), content(DOCUMENT));
    let mut found = Vec::new();
    for target in targets(texts) {
        let path = format!("{TARGETS}{target}.rs");
        let mut wrong = |rule: String| found.push(Violation::new(&path, 1, rule));
        if !manifest.contains(&format!("[[bin]]\nname = \"{target}\"\n")) {
            wrong(format!("{MANIFEST} has no [[bin]] named {target}"));
        }
        if !document.contains(&format!("\n| `{target}` |")) {
            wrong(format!("{DOCUMENT} has no row for `{target}`"));
        }
        for rule in modules(&path, texts) {
            wrong(rule);
        }
        let count = inputs(target);
        if count < INPUTS_MIN {
            wrong(format!(
                "fuzz/corpus/{target} has {count} inputs, at least {INPUTS_MIN} are right"
            ));
        }
    }
    found
}

/// What a target lacks of the modules it is made of: files that are not there, and modules that these use.
fn modules(path: &str, texts: &[Text]) -> Vec<String> {
    let content = |path: &str| Some(&texts.iter().find(|text| text.path == path)?.content);
    let Some(target) = content(path) else { return Vec::new() };
    let (mut files, mut modules) = (Vec::new(), BTreeSet::new());
    for line in target.lines() {
        if let Some(rest) = line.strip_prefix("#[path = \"../../") {
            files.push(rest.trim_end_matches("\"]"));
        } else if let Some(rest) = line.strip_prefix("mod ") {
            modules.insert(rest.trim_end_matches(';'));
        }
    }
    let mut found = Vec::new();
    for file in files {
        if content(file).is_none() {
            found.push(format!("there is no {file}"));
        }
        // A module in a folder has others below it.
        let folder = file.strip_suffix("mod.rs");
        let is_part = |text: &&Text| {
            text.path == file || folder.is_some_and(|folder| text.path.starts_with(folder))
        };
        for text in texts.iter().filter(is_part) {
            let used = text.content.split("crate::").skip(1).map(first_word);
            let missing = used.filter(|module| !modules.contains(module));
            found.extend(
                missing.map(|it| format!("{} uses `{it}`, which is no module here", text.path)),
            );
        }
    }
    found
}

fn first_word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_built_described_and_has_inputs() {
        let text = |path: &str, content: &str| Text { path: path.into(), content: content.into() };
        let texts = |manifest: &str, document: &str| {
            let target = text("fuzz/fuzz_targets/bytes.rs", "");
            [target, text(MANIFEST, manifest), text(DOCUMENT, document)]
        };
        let (manifest, document) = ("[[bin]]\nname = \"bytes\"\n", "a\n| `bytes` | b |\n");
        let good = texts(manifest, document);
        assert_eq!(check_targets(&good, |_| INPUTS_MIN), []);
        for (texts, inputs, missing) in [
            (texts("", document), INPUTS_MIN, "[[bin]]"),
            (texts(manifest, ""), INPUTS_MIN, "no row"),
            (good, INPUTS_MIN - 1, "8 inputs"),
        ] {
            let found = check_targets(&texts, |_| inputs);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].rule.contains(missing), "{found:?}");
        }
    }

    #[test]
    fn a_target_has_all_modules_that_it_is_made_of() {
        let text = |path: &str, content: &str| Text { path: path.into(), content: content.into() };
        let target = "#[path = \"../../core/tests/a/dice.rs\"]\nmod dice;\n\
                      #[path = \"../../core/tests/a/net/mod.rs\"]\nmod net;\n";
        let texts = |dice: &str, below: &str| {
            let below = text("core/tests/a/net/below.rs", below);
            [
                text("f", target),
                text("core/tests/a/dice.rs", dice),
                text("core/tests/a/net/mod.rs", ""),
                below,
            ]
        };
        assert_eq!(modules("f", &texts("use crate::net::X;", "use crate::dice::Y;")), [""; 0]);
        let expected = ["core/tests/a/dice.rs uses `bed`, which is no module here"];
        assert_eq!(modules("f", &texts("use crate::bed;", "")), expected);
        let expected = ["core/tests/a/net/below.rs uses `bed`, which is no module here"];
        assert_eq!(modules("f", &texts("", "use crate::bed;")), expected);
        assert_eq!(modules("f", &[text("f", target)]).len(), 2);
    }
}
