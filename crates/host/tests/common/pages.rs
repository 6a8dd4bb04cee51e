//! Pages whose contents depend on their number and version, and functions for threads that use such pages.

use highwater::Memory;
use std::fs;
use std::path::Path;

pub const PAGE: u64 = 4096;

/// Returns the bytes of version `version` of page `number`.
pub fn page(number: u64, version: u64) -> Vec<u8> {
    let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version.wrapping_mul(0xd1b5_4a32_d192_ed03);
    if version == 0 { vec![0; PAGE as usize] } else { seed.to_le_bytes().repeat(PAGE as usize / 8) }
}

/// A simple pseudo-random number generator, used to choose pages.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Returns the duration of a long test, seconds: `usual`, or the value of HIGHWATER_SOAK_SECONDS.
pub fn soak_seconds(usual: u64) -> u64 {
    std::env::var("HIGHWATER_SOAK_SECONDS").map_or(usual, |text| text.parse().expect("a number of seconds"))
}

/// Makes a region, and writes and reads its pages by copy and in place until `is_done` returns `true`. Checks that
/// every byte is as written. Returns the number of operations.
pub fn use_region(memory: &Memory, n: u64, pages: u64, is_done: impl Fn() -> bool) -> u64 {
    let region = memory.anonymous(pages * PAGE).unwrap();
    let mut chance = Chance(n + 1);
    let mut versions = vec![0; pages as usize];
    let mut operations = 0;
    let mut found = vec![0; PAGE as usize];
    while !is_done() {
        operations += 1;
        let number = chance.below(pages);
        let version = &mut versions[number as usize];
        match chance.below(4) {
            0 => {
                *version = operations;
                region.write_at(&page(number, operations), number * PAGE).unwrap();
            }
            1 => {
                *version = operations;
                region.page_mut(number).unwrap().copy_from_slice(&page(number, operations));
            }
            2 => assert!(region.page(number).unwrap()[..] == page(number, *version)[..], "region {n}, page {number}"),
            _ => {
                region.read_at(&mut found, number * PAGE).unwrap();
                assert!(found == page(number, *version), "region {n}, page {number}, version {version}");
            }
        }
    }
    for (number, version) in versions.into_iter().enumerate() {
        region.read_at(&mut found, number as u64 * PAGE).unwrap();
        assert!(found == page(number as u64, version), "region {n}, page {number} at the end");
    }
    operations
}

/// Checks that every byte of a closed file is as written. `versions` has the expected version of each page.
pub fn check_file(path: &Path, len: u64, versions: &[u64]) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes.len() as u64, len);
    for (number, found) in bytes.chunks(PAGE as usize).enumerate() {
        assert!(
            found == page(number as u64, versions[number]),
            "{}, page {number}, after it was closed",
            path.display()
        );
    }
}
