//! Bytes as a file of any format, and good files with some of their bytes changed.

#![no_main]

use std::panic;
use std::sync::Once;

#[path = "../../runtime/data/tests/corpora/data_files.rs"]
mod data_files;
#[path = "../../runtime/data/tests/corpora/good_files.rs"]
mod good_files;

static QUIET: Once = Once::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // libFuzzer's hook ends the process at any panic, also at those of others' decoders that are
    // caught and told as what is wrong with the file. What comes out of the check still ends it.
    QUIET.call_once(|| panic::set_hook(Box::new(|_| {})));
    data_files::check(bytes);
});
