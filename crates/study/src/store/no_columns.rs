//! Replaces the module `columns` in builds without the feature `parquet`. No store can be opened in such a build, so no
//! function here is reached.

use super::StoredRun;
use std::collections::HashMap;

pub(super) fn write(_: &[StoredRun], _: Vec<(String, String)>) -> Vec<u8> {
    unreachable!("no store is opened without the feature `parquet`")
}

pub(super) fn read(_: Vec<u8>) -> Result<(HashMap<String, String>, Vec<([String; 5], f64)>), String> {
    unreachable!("no store is opened without the feature `parquet`")
}
