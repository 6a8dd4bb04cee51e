//! Choice of the kernel file nearest to a running kernel.

use super::Computer;
use catalogue::versions;

/// Returns the name of the kernel file nearest to a computer's kernel. Only files that agree with the computer on
/// whether the multi-generational LRU is on are considered. Of these, the newest file that is not newer than the
/// computer's kernel is chosen; if all are newer, the oldest.
#[must_use]
pub fn kernel(computer: &Computer) -> String {
    let running = versions::version(&computer.release).unwrap_or((u32::MAX, 0));
    versions::nearest(running, computer.has_multigen == Some(true)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_is_not_newer_is_nearest() {
        let nearest = |release: &str, has_multigen| {
            kernel(&Computer { release: release.into(), has_multigen, ..Computer::default() })
        };
        assert_eq!(nearest("6.18.44-fc-v669", None), "6.18-classic");
        assert_eq!(nearest("7.0.1", Some(false)), "6.18-classic");
        assert_eq!(nearest("6.8.0-45-generic", Some(true)), "6.6-mglru");
        assert_eq!(nearest("6.14.0", Some(true)), "6.14-mglru");
        assert_eq!(nearest("6.8.0-45-generic", Some(false)), "6.6-classic");
        assert_eq!(nearest("5.15.0-91-generic", None), "5.15");
        assert_eq!(nearest("4.18.0-553.el8_10.x86_64", None), "4.18");
        assert_eq!(nearest("3.3.8", None), "3.3.6");
        assert_eq!(nearest("2.6.32", None), "3.3.6", "all are newer");
    }
}
