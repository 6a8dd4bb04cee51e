//! The settings in `/proc/sys` and `/sys` of a guest's kernel that correspond to the values of the engine's kernel
//! file.

use catalogue::difference;
use engine::kernel::Kernel;
use guest::inside;

/// The way in which a value of a kernel file is written for the running kernel.
#[derive(Clone, Copy)]
enum Form {
    /// The value is written unchanged.
    Same,
    /// The value is written unchanged, unless it is 0. A 0 leaves the value to the kernel's formula or to another
    /// setting, so it is not written.
    UnlessZero,
    /// The value is converted from milliseconds to hundredths of a second.
    Centiseconds,
    /// The list is written without brackets and commas.
    List,
    /// The value is a word, in place of which another text is written to the guest's file. The list has pairs of a word
    /// and its text. For a word that is not in the list, nothing is written.
    Words(&'static [(&'static str, &'static str)]),
}

const GENERATIONS: Form = Form::Words(&[("classic", "n"), ("multigen", "y")]);
/// The form of the setting `multigen.walk`. Bit 1 (value 2) of `lru_gen/enabled` allows walks of page tables
/// (Documentation/admin-guide/mm/multigen_lru.rst). For `never`, 5 is written, in which this bit is off. For the other
/// values, nothing is written.
const WALKS: Form = Form::Words(&[("never", "5")]);
/// The form of those settings of khugepaged that are either on or off: `yes` is written as 1, `no` as 0.
const KHUGEPAGED: Form = Form::Words(&[("yes", "1"), ("no", "0")]);

/// For each setting: the key in the kernel file, the file of the running kernel to which the value is written, and the
/// form of the value.
const SETTINGS: [(&str, &str, Form); 25] = [
    // This setting comes first, because the meaning of the other settings of generations depends on it.
    ("lru.policy", "/sys/kernel/mm/lru_gen/enabled", GENERATIONS),
    ("multigen.walk", "/sys/kernel/mm/lru_gen/enabled", WALKS),
    ("multigen.min_ttl_ms", "/sys/kernel/mm/lru_gen/min_ttl_ms", Form::UnlessZero),
    ("lru.swappiness", "/proc/sys/vm/swappiness", Form::Same),
    ("memory.min_free_kbytes", "/proc/sys/vm/min_free_kbytes", Form::UnlessZero),
    ("memory.watermark_scale_factor", "/proc/sys/vm/watermark_scale_factor", Form::UnlessZero),
    ("memory.watermark_boost_factor", "/proc/sys/vm/watermark_boost_factor", Form::Same),
    ("memory.lowmem_reserve_ratio", "/proc/sys/vm/lowmem_reserve_ratio", Form::List),
    ("swap.page_cluster", "/proc/sys/vm/page-cluster", Form::Same),
    ("writeback.dirty_ratio", "/proc/sys/vm/dirty_ratio", Form::Same),
    ("writeback.dirty_background_ratio", "/proc/sys/vm/dirty_background_ratio", Form::Same),
    // These settings come after the ratios, which they replace.
    ("writeback.dirty_bytes", "/proc/sys/vm/dirty_bytes", Form::UnlessZero),
    ("writeback.dirty_background_bytes", "/proc/sys/vm/dirty_background_bytes", Form::UnlessZero),
    ("writeback.dirty_expire_ms", "/proc/sys/vm/dirty_expire_centisecs", Form::Centiseconds),
    ("writeback.dirty_writeback_ms", "/proc/sys/vm/dirty_writeback_centisecs", Form::Centiseconds),
    ("compact.extfrag_threshold", "/proc/sys/vm/extfrag_threshold", Form::Same),
    ("reclaim.zone_reclaim_mode", "/proc/sys/vm/zone_reclaim_mode", Form::Same),
    ("access.read_ahead_kb", "/sys/block/vda/queue/read_ahead_kb", Form::Same),
    ("access.huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled", Form::Same),
    ("access.huge_defrag", "/sys/kernel/mm/transparent_hugepage/defrag", Form::Same),
    ("access.khugepaged_defrag", "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", KHUGEPAGED),
    ("access.khugepaged_pages_to_scan", "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", Form::Same),
    (
        "access.khugepaged_scan_sleep_ms",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
        Form::Same,
    ),
    (
        "access.khugepaged_alloc_sleep_ms",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs",
        Form::Same,
    ),
    ("access.khugepaged_max_ptes_none", "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none", Form::Same),
];

/// Returns the settings of a guest for a kernel file, in the order in which they must be made. The settings
/// `multigen.…` are left out if the kernel file does not use the multi-generational LRU.
pub(super) fn settings(kernel: &Kernel) -> Vec<inside::Setting> {
    let has_generations = kernel
        .settings
        .iter()
        .any(|it| it.section == "lru" && it.key == "policy" && difference::plain(&it.value) == "multigen");
    let of_kernel = |(key, path, form): &(&str, &str, Form)| {
        let setting = kernel.settings.iter().find(|it| *key == format!("{}.{}", it.section, it.key))?;
        let value = written(&difference::plain(&setting.value), *form)?;
        Some(inside::Setting { path: (*path).to_owned(), value, name: (*key).to_owned() })
    };
    let is_read = |(key, ..): &&(&str, &str, Form)| has_generations || !key.starts_with("multigen.");
    SETTINGS.iter().filter(is_read).filter_map(of_kernel).collect()
}

/// Returns the text that is written for `value` to the setting's file; `None` if, by `form`, nothing is written.
fn written(value: &str, form: Form) -> Option<String> {
    match form {
        Form::Same => Some(value.to_owned()),
        Form::UnlessZero => (value != "0").then(|| value.to_owned()),
        Form::Centiseconds => value.parse::<u64>().ok().map(|ms| (ms / 10).to_string()),
        Form::List => Some(value.replace(['[', ']', ','], "")),
        Form::Words(words) => words.iter().find(|(from, _)| *from == value).map(|(_, to)| (*to).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalogue::find;

    fn of(word: &str) -> Vec<(String, String)> {
        settings(&find::kernel(word).unwrap()).into_iter().map(|it| (it.name, it.value)).collect()
    }

    #[test]
    fn a_kernel_file_makes_settings() {
        let found = of("6.1-mglru+lru.swappiness=10+multigen.min_ttl_ms=1000");
        let expected = [("lru.policy", "y"), ("multigen.min_ttl_ms", "1000"), ("lru.swappiness", "10")];
        assert_eq!(found[..3], expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let value = |name: &str| found.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
        assert_eq!(value("memory.lowmem_reserve_ratio"), Some("256 256 32"));
        assert_eq!(value("writeback.dirty_expire_ms"), Some("3000"));
        assert_eq!((value("memory.min_free_kbytes"), value("access.huge_pages")), (None, Some("always")));
        assert_eq!(
            of("6.1-classic+multigen.walk=never")[..2],
            [("lru.policy", "n"), ("lru.swappiness", "60")].map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(of("6.1-mglru+multigen.walk=never")[1], ("multigen.walk".to_owned(), "5".to_owned()));
    }

    #[test]
    fn every_key_is_a_choice_of_the_engine() {
        let kernel = find::kernel("6.1-mglru").unwrap();
        for (key, _, _) in SETTINGS {
            assert!(kernel.settings.iter().any(|it| key == format!("{}.{}", it.section, it.key)), "{key}");
        }
    }
}
