//! Which files fit a pattern.

use std::path::{Path as LocalPath, absolute};

use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path;

use super::{StoredFile, Stores, url_of};
use crate::error::DataError;
use crate::limits::FILES_MAX;

/// What a pattern's wildcards stand for: `*` and `?` stay within a directory, `**` does not, and
/// what begins with a dot is named by a dot.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// A file that fits a pattern: its absolute path or its URL.
pub(crate) type Listed = String;

impl Stores {
    /// The files that fit the patterns, pattern by pattern, those of one in order of their names.
    pub(crate) async fn list(&self, patterns: &[String]) -> Result<Vec<Listed>, DataError> {
        if patterns.is_empty() {
            return Err(DataError::pipeline("its source names no files"));
        }
        let mut all = Vec::new();
        for pattern in patterns {
            let files = self.fitting(pattern).await?;
            if files.is_empty() {
                return Err(DataError::NoFiles { pattern: pattern.clone() });
            }
            all.extend(files);
            let found = all.len() as u64;
            if found > FILES_MAX {
                let (what, bound) = ("files that fit the patterns".to_owned(), FILES_MAX);
                return Err(DataError::Bound { what, found, bound, setting: "FILES_MAX" });
            }
        }
        Ok(all)
    }

    async fn fitting(&self, pattern: &str) -> Result<Vec<Listed>, DataError> {
        let wrong = |what: String| DataError::pipeline(format!("files {pattern:?}: {what}"));
        let url = url_of(pattern).map_err(&wrong)?;
        match url {
            None => local(pattern),
            Some(url) if url.scheme() == "file" => {
                let path = url.to_file_path().map_err(|()| wrong("no path".to_owned()))?;
                local(&path.to_string_lossy())
            }
            Some(_) if !has_wildcards(pattern) => Ok(vec![pattern.to_owned()]),
            Some(_) => self.remote(pattern).await,
        }
    }

    /// The objects that fit a pattern, by listing what begins like it.
    async fn remote(&self, pattern: &str) -> Result<Vec<Listed>, DataError> {
        // The URL's own parser would take `?` for a query.
        let (root, path) = split(pattern);
        let wanted = Pattern::new(path)
            .map_err(|error| DataError::pipeline(format!("files {pattern:?}: {error}")))?;
        let literal = path.split(['*', '?', '[']).next().unwrap_or_default();
        let prefix = literal.rsplit_once('/').map_or("", |(directories, _)| directories);
        let place = self.place(&format!("{root}/{prefix}"))?;
        let prefix = (!prefix.is_empty()).then(|| Path::from(prefix));
        let mut listing = place.store.list(prefix.as_ref());
        let mut found = Vec::new();
        loop {
            let next = listing.try_next().await;
            match next.map_err(|error| self.refusal(pattern, &place.name, &error))? {
                None => break,
                Some(meta) if wanted.matches_with(meta.location.as_ref(), MATCHING) => {
                    found.push(format!("{root}/{}", meta.location));
                }
                Some(_) => {}
            }
        }
        self.answered(&place.name);
        found.sort_unstable();
        Ok(found)
    }

    /// Files as they are now, in their order.
    pub(crate) async fn look_at(&self, files: &[Listed]) -> Result<Vec<StoredFile>, DataError> {
        use futures_util::StreamExt;
        let looks = files.iter().map(|file| self.look(file));
        let looks = futures_util::stream::iter(looks).buffered(self.limits().files_at_once.max(1));
        looks.try_collect().await
    }
}

fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// A URL's scheme and host, and its path without the slash between.
fn split(url: &str) -> (&str, &str) {
    let behind = url.find("://").map_or(0, |at| at.saturating_add(3));
    let slash = url.get(behind..).and_then(|rest| rest.find('/'));
    match slash {
        Some(slash) => {
            let at = behind.saturating_add(slash);
            (url.get(..at).unwrap_or(url), url.get(at.saturating_add(1)..).unwrap_or(""))
        }
        None => (url, ""),
    }
}

/// Local files that fit a pattern; a file whose name is the pattern comes first.
fn local(pattern: &str) -> Result<Vec<Listed>, DataError> {
    let wrong = |what: String| DataError::pipeline(format!("files {pattern:?}: {what}"));
    let path = absolute(LocalPath::new(pattern)).map_err(|it| wrong(it.to_string()))?;
    let text = |path: &LocalPath| {
        let text = path.to_str().map(ToOwned::to_owned);
        text.ok_or_else(|| wrong(format!("{} is no Unicode", path.display())))
    };
    let whole = text(&path)?;
    if !has_wildcards(pattern) || path.exists() {
        return if path.exists() {
            Ok(vec![whole])
        } else {
            Err(DataError::Missing { file: whole })
        };
    }
    let found = glob::glob_with(&whole, MATCHING).map_err(|it| wrong(it.to_string()))?;
    let mut files = Vec::new();
    for file in found {
        let file = file.map_err(|error| {
            let (file, what) = (error.path().display().to_string(), error.error().to_string());
            DataError::Store { file, what }
        })?;
        if file.is_file() {
            files.push(text(&file)?);
        }
    }
    files.sort_unstable();
    Ok(files)
}
