//! Finds the known name that a user probably meant by a wrong name.

/// Largest number of characters of a wrong name that is compared with the known names. No known name is longer, and a
/// comparison takes longer for a longer name.
const COMPARED_MAX: usize = 100;

/// Returns the known name that is most similar to `found`, if `found` may be a misspelling or a part of this name.
#[must_use]
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['_', '.', ' '], "-");
    if found.chars().nth(COMPARED_MAX).is_some() {
        return None;
    }
    let wanted = plain(found);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        .filter(|(distance, name)| {
            let is_near = *distance <= 1 + wanted.chars().count().min(name.chars().count()) / 3;
            let is_part = wanted.len() >= 3 && plain(name).contains(&wanted);
            let is_word = |word: &str| strsim::damerau_levenshtein(&wanted, word) <= 1;
            is_near || is_part || (wanted.len() >= 5 && plain(name).split('-').any(is_word))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the last part of a message about the unknown name `found`: "`: did you mean …?`" with the most similar known
/// name, or a list of all known names if none is similar.
#[must_use]
pub fn one_of(found: &str, known: &[&str]) -> String {
    match (nearest(found, known.iter().copied()), known) {
        (Some(name), _) => format!(": did you mean `{name}`?"),
        (None, []) => String::new(),
        (None, [only]) => format!(": only `{only}` is known"),
        (None, names) => {
            format!(": known are {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["zone_balance", "min_scan_priority", "swappiness"];
        assert_eq!(nearest("zone_balence", known), Some("zone_balance"));
        assert_eq!(nearest("Zone-Balance", known), Some("zone_balance"));
        assert_eq!(nearest("scan_priority", known), Some("min_scan_priority"));
        assert_eq!(nearest("priorty", known), Some("min_scan_priority"));
        assert_eq!(nearest("colour", known), None);
        let long = "zone_balance".repeat(100_000);
        assert_eq!(nearest(&long, known), None);
    }
}
