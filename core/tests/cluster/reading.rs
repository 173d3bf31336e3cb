//! Texts from any bytes, beside naive readings of them: host lists, counts of tasks, JSON.

use rondo_core::cluster::{Json, slurm};
use serde_json::Value;

/// Hosts that the naive reading expands to.
const NAIVE_MAX: usize = 20_000;

/// A host list: read as the naive reading does, or refused in words. Whether it is one.
pub(crate) fn host_list(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let naive = naive_list(&text);
    match slurm::host_list("LIST", &text) {
        Ok(hosts) => {
            assert!(hosts.len() <= rondo_core::limits::CLUSTER_TASKS_MAX);
            match naive {
                Naive::Hosts(naive) => assert_eq!(hosts, naive, "{text:?}"),
                Naive::TooMany => {}
                Naive::Wrong => panic!("{text:?} is no host list"),
            }
            true
        }
        Err(error) => {
            assert_eq!(error.about, "LIST");
            assert!(error.text.contains('"') && error.text.len() < 2048, "{error}");
            if let Naive::Hosts(naive) = naive {
                panic!("{text:?} is refused ({error}), and expands to {} hosts", naive.len());
            }
            false
        }
    }
}

enum Naive {
    Hosts(Vec<String>),
    TooMany,
    Wrong,
}

/// Sign by sign, and one group after the other put into all names so far.
fn naive_list(text: &str) -> Naive {
    let mut hosts = Vec::new();
    let mut names = vec![String::new()];
    let mut group: Option<String> = None;
    let mut is_begun = false;
    for sign in text.chars().chain([',']) {
        match (sign, &mut group) {
            ('[', None) => (group, is_begun) = (Some(String::new()), true),
            (']', Some(ranges)) => {
                let Some(numbers) = naive_numbers(ranges) else { return Naive::Wrong };
                if names.len() * numbers.len() > NAIVE_MAX {
                    return Naive::TooMany;
                }
                let longer = |name: &String| {
                    numbers.iter().map(|number| format!("{name}{number}")).collect::<Vec<_>>()
                };
                names = names.iter().flat_map(longer).collect();
                group = None;
            }
            (',', None) => {
                if is_begun {
                    hosts.append(&mut names);
                }
                (names, is_begun) = (vec![String::new()], false);
                if hosts.len() > NAIVE_MAX {
                    return Naive::TooMany;
                }
            }
            (sign, Some(ranges)) => ranges.push(sign),
            (sign, None) => {
                if !sign.is_ascii_alphanumeric() && !"-._".contains(sign) {
                    return Naive::Wrong;
                }
                is_begun = true;
                names.iter_mut().for_each(|name| name.push(sign));
                if names.iter().any(|name| name.len() > 2048) {
                    return Naive::TooMany;
                }
            }
        }
    }
    if group.is_some() { Naive::Wrong } else { Naive::Hosts(hosts) }
}

/// `None` for what is no list of numbers and ranges, ones that are too large included.
fn naive_numbers(ranges: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for range in ranges.split(',') {
        let ends: Vec<&str> = range.split('-').collect();
        let is_number = |text: &&str| {
            !text.is_empty() && text.len() <= 18 && text.chars().all(|sign| sign.is_ascii_digit())
        };
        if ends.len() > 2 || !ends.iter().all(is_number) {
            return None;
        }
        let number = |text: &str| text.parse::<u64>().unwrap();
        let (low, high) = (number(ends[0]), number(ends[ends.len() - 1]));
        if low > high || high - low >= 65_536 {
            return None;
        }
        for number in low..=high {
            let digits = number.to_string();
            let zeros = ends[0].len().saturating_sub(digits.len());
            found.push(format!("{}{digits}", "0".repeat(zeros)));
        }
    }
    Some(found)
}

/// Counts of tasks: no more than there may be, and written out and read again the same.
pub(crate) fn task_counts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match slurm::task_counts("COUNTS", &text) {
        Ok(counts) => {
            assert!(!counts.is_empty() && counts.len() <= rondo_core::limits::CLUSTER_TASKS_MAX);
            if counts.len() < 1000 {
                let plain: Vec<String> = counts.iter().map(ToString::to_string).collect();
                assert_eq!(slurm::task_counts("COUNTS", &plain.join(",")), Ok(counts));
            }
        }
        Err(error) => assert!(error.text.contains('"') && error.text.len() < 2048, "{error}"),
    }
}

/// JSON: taken if another reader takes it, with the same value, and written again it is the same. Whether
/// it is taken.
pub(crate) fn json(text: &str) -> bool {
    let theirs = serde_json::from_str::<Value>(text);
    match Json::parse(text) {
        Ok(ours) => {
            let line = ours.to_string();
            assert_eq!(Json::parse(&line).as_ref(), Ok(&ours), "{text:?}");
            assert_eq!(Json::parse(&format!("{ours:#}")).as_ref(), Ok(&ours), "{text:?}");
            match theirs {
                Ok(theirs) => assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), theirs),
                Err(why) => {
                    assert!(why.to_string().contains("number out of range"), "{text:?}: {why}")
                }
            }
            true
        }
        Err(fault) => {
            assert!(fault.at <= text.len());
            assert!(theirs.is_err() || fault.why.contains("deeper"), "{text:?} is JSON: {fault}");
            false
        }
    }
}
