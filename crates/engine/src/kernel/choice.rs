//! How a choice is declared, once, and what is known of it at run time.
//!
//! A floor's `choices.rs` is one `choices!`, which makes its section's struct `Choices`, an enum for each choice among names, and
//! a [`Section`] that tells all of it: what a key decides, its values and what they mean, its default, its limits, and what a swarm
//! draws. `explain`, the swarm, messages, `docs/choices.md` and [`super::Choices::check`] read that.
//!
//! ```text
//! choices! {
//!     /// What is read from swap.
//!     [swap]
//!
//!     /// What a number is, and its unit.
//!     page_cluster: u8 = 3 in 0..=9, drawn 23: [0, 3, 5];
//!
//!     /// What is decided.
//!     window: SwapWindows = Fixed, drawn 27 {
//!         /// What the value does, and what it costs.
//!         Fixed,
//!         /// A swarm draws this value twice as often as the other.
//!         ByUse drawn 2,
//!     }
//! }
//! ```
//!
//! The enums have no `==`: whoever reads a choice matches it, so that a new value does not compile before every reader has taken a
//! side. Where a reader wants a yes or no, a method beside the declaration says it.
//!
//! A value has its variant's name in kebab-case. The number after `drawn` says when a swarm draws the choice: a new one is the
//! last, so that the worlds of existing seeds keep what they drew before it.
//!
//! A default is the value of the oldest kernel, [`super::ROOT`], whose file says the same. Since which kernel another value holds is
//! told by kernel files: [`Choice::since`].

use placed::Value;
use std::sync::LazyLock;

use super::{Kernel, Origin, Setting, defaults, files};

/// A section of kernel files: a floor of the engine that has choices.
#[derive(Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    pub(crate) comment: &'static str,
    /// Its keys.
    pub choices: &'static [Choice],
}

/// One key of a kernel file.
#[derive(Debug)]
pub struct Choice {
    /// The section: a module of the engine.
    pub section: &'static str,
    /// The key in it.
    pub key: &'static str,
    pub(crate) comment: &'static str,
    /// Its values, by name; none where it is a number.
    pub values: &'static [Named],
    /// Smallest and largest, of a number. Where a limit is the kernel's own sysctl's, it is that; the others keep out what no
    /// machine has.
    pub limits: Option<(i64, i64)>,
    /// When a swarm draws it: no two choices have the same.
    pub draw_order: u32,
    /// The numbers that a swarm draws, each as often as the others; none where the choice is among names.
    pub drawn_numbers: &'static [&'static str],
}

/// A value that has a name.
#[derive(Debug)]
pub struct Named {
    /// The name, as a kernel file has it.
    pub name: &'static str,
    pub(crate) comment: &'static str,
    /// How often a swarm draws it, beside the others of its choice.
    pub weight: u32,
}

/// The first kernel that has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// Its name.
    pub kernel: String,
    /// Where that is from, as its file says.
    pub source: String,
}

impl Section {
    /// What its choices are about.
    #[must_use]
    pub fn about(&self) -> String {
        prose(self.comment)
    }
}

impl Choice {
    /// The choice under a section and a key, `lru.swappiness`, or under a key alone.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Self> {
        all().find(|it| path == it.key || path.split_once('.') == Some((it.section, it.key)))
    }

    /// Section and key, as on the command line: `lru.swappiness`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// What it decides.
    #[must_use]
    pub fn about(&self) -> String {
        prose(self.comment)
    }

    /// What [`super::ROOT`] has, and every kernel whose files do not name it.
    ///
    /// # Panics
    /// Never: every choice has a default.
    #[must_use]
    pub fn default(&self) -> Value {
        let defaults = defaults();
        let node = defaults.get(self.section).and_then(|section| section.get(self.key));
        node.expect("the struct has all keys that were declared with it").value.clone()
    }

    /// What a swarm draws from, as a kernel file writes it. A value stands in it as often as its weight says.
    #[must_use]
    pub fn drawn(&self) -> Vec<String> {
        let names = self.values.iter().flat_map(|value| (0..value.weight).map(|_| format!("\"{}\"", value.name)));
        names.chain(self.drawn_numbers.iter().map(|&number| number.to_owned())).collect()
    }

    /// The values that a number may have, in words; `None` of a choice among names.
    #[must_use]
    pub fn range(&self) -> Option<String> {
        let numbers = if matches!(self.default(), Value::List(_)) { "whole numbers" } else { "a whole number" };
        Some(match self.limits? {
            (least, i64::MAX) => format!("{numbers}, at least {least}"),
            (least, most) => format!("{numbers} from {least} to {most}"),
        })
    }

    /// The values that kernels of the engine have, each with the first that has it, bases before what is built on them.
    ///
    /// # Panics
    /// Never: the kernels of the engine are sound, as tests prove.
    #[must_use]
    pub fn in_kernels(&self) -> Vec<(Value, Since)> {
        let mut found: Vec<(Value, Since)> = Vec::new();
        for kernel in KERNELS.iter() {
            let setting = kernel.settings.iter().find(|it| it.section == self.section && it.key == self.key);
            let Some(Setting { value, origin: Origin::File { kernel, source, .. }, .. }) = setting else { continue };
            if found.iter().all(|(other, _)| other != value) {
                let since = Since { kernel: kernel.clone(), source: source.clone().unwrap_or_default() };
                found.push((value.clone(), since));
            }
        }
        found
    }

    /// The first kernel that has `value`, of [`Choice::in_kernels`]; `None` where none has it.
    #[must_use]
    pub fn since(&self, value: &Value) -> Option<Since> {
        self.in_kernels().into_iter().find_map(|(found, since)| (found == *value).then_some(since))
    }
}

impl Named {
    /// What the value does.
    #[must_use]
    pub fn about(&self) -> String {
        prose(self.comment)
    }
}

/// The kernels that come with the engine, bases before what is built on them.
static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    let mut kernels: Vec<Kernel> = files::names().filter_map(Kernel::built_in).collect();
    kernels.sort_by_key(|kernel| kernel.bases.len());
    kernels
});

/// Every choice of a kernel, in the order of [`super::Choices`].
pub fn all() -> impl Iterator<Item = &'static Choice> {
    super::SECTIONS.iter().flat_map(|section| section.choices)
}

/// The comment of a declaration as one text, without the brackets of links.
fn prose(comment: &str) -> String {
    let lines: Vec<&str> = comment.lines().map(str::trim).collect();
    lines.join(" ").trim().replace("[`", "`").replace("`]", "`")
}

/// A number out of its limits, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub section: &'static str,
    pub message: String,
}

/// What a choice of numbers has: one, or a list.
pub(crate) trait Numbers {
    fn numbers(&self) -> impl Iterator<Item = i128>;
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Numbers for $type {
            fn numbers(&self) -> impl Iterator<Item = i128> {
                std::iter::once(i128::from(*self))
            }
        })*
    };
}
numbers!(u8, u32, u64, i64);

impl<const N: usize> Numbers for [u64; N] {
    fn numbers(&self) -> impl Iterator<Item = i128> {
        self.iter().map(|&number| i128::from(number))
    }
}

/// Refuses a choice of numbers one of which is out of its limits: this is the one place that does, for files and for what is made
/// in Rust.
pub(crate) fn check_limits(choice: &'static Choice, numbers: &impl Numbers) -> Result<(), Refused> {
    let Some((low, high)) = choice.limits else { return Ok(()) };
    let Some(found) = numbers.numbers().find(|number| !(i128::from(low)..=i128::from(high)).contains(number)) else {
        return Ok(());
    };
    let range = if high == i64::MAX { format!("at least {low}") } else { format!("{low} to {high}") };
    let message = format!("`{}`: expected {range}, found {found}", choice.key);
    Err(Refused { section: choice.section, message })
}

/// Declares the choices of a section: see the head of this file.
macro_rules! choices {
    (
        $(#[doc = $comment:literal])*
        [$section:ident]
        $(
            $(#[doc = $about:literal])*
            $key:ident: $type:tt = $default:tt $(in $limits:expr)?, drawn $order:literal
            $(: [$($drawn:expr),* $(,)?];)?
            $({ $($values:tt)* })?
        )*
    ) => {
        $(
            $crate::kernel::choice::choices! {
                @enum $type = $default $(#[doc = $about])* [$($($values)*)?]
            }
        )*

        #[doc = concat!("The section `[", stringify!($section), "]` of a kernel file.")]
        #[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Choices {
            $($(#[doc = $about])* pub $key: $type,)*
        }

        impl PartialEq for Choices {
            fn eq(&self, other: &Self) -> bool {
                $($crate::kernel::choice::choices!(@eq self.$key, other.$key, [$($($values)*)?]))&&*
            }
        }

        impl Eq for Choices {}

        impl Default for Choices {
            fn default() -> Self {
                Self { $($key: $crate::kernel::choice::choices!(@default $type = $default [$($($values)*)?]),)* }
            }
        }

        impl Choices {
            /// Refuses the first number that is out of its limits.
            pub(crate) fn check_limits(&self) -> Result<(), $crate::kernel::choice::Refused> {
                let mut _choices = SECTION.choices.iter();
                $(
                    let _choice = _choices.next().expect("each key is declared once");
                    $(
                        // Names have none.
                        let _: std::ops::RangeInclusive<i64> = $limits;
                        $crate::kernel::choice::check_limits(_choice, &self.$key)?;
                    )?
                )*
                Ok(())
            }
        }

        /// All that is known of these choices.
        pub static SECTION: $crate::kernel::choice::Section = $crate::kernel::choice::Section {
            name: stringify!($section),
            comment: concat!($($comment, "\n"),*),
            choices: &[$($crate::kernel::choice::Choice {
                section: stringify!($section),
                key: stringify!($key),
                comment: concat!($($about, "\n"),*),
                values: $crate::kernel::choice::choices!(@values $type [$($($values)*)?]),
                limits: $crate::kernel::choice::choices!(@limits $($limits)?),
                draw_order: $order,
                drawn_numbers: {
                    $(const _: &[$type] = &[$($drawn),*];)?
                    &[$($(stringify!($drawn)),*)?]
                },
            }),*],
        };
    };

    // The enum of a choice among names; nothing for a number.
    (@enum $type:tt = $default:tt $(#[doc = $about:literal])* []) => {};
    (
        @enum $type:ident = $default:ident $(#[doc = $about:literal])*
        [$($(#[doc = $comment:literal])* $variant:ident $(drawn $weight:literal)?,)+]
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize, strum::VariantNames)]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $type {
            $($(#[doc = $comment])* $variant,)+
        }

        impl Default for $type {
            fn default() -> Self {
                Self::$default
            }
        }
    };

    (@eq $a:expr, $b:expr, []) => { $a == $b };
    (@eq $a:expr, $b:expr, [$($values:tt)+]) => { $a as usize == $b as usize };

    (@default $type:tt = $default:tt []) => { $default };
    (@default $type:ident = $default:ident [$($values:tt)+]) => { $type::$default };

    (@limits) => { None };
    (@limits $limits:expr) => {{
        let limits: std::ops::RangeInclusive<i64> = $limits;
        Some((*limits.start(), *limits.end()))
    }};

    (@values $type:tt []) => { &[] };
    (@values $type:ident [$($(#[doc = $comment:literal])* $variant:ident $(drawn $weight:literal)?,)+]) => {
        &[$($crate::kernel::choice::Named {
            name: <$type as strum::VariantNames>::VARIANTS[$type::$variant as usize],
            comment: concat!($($comment, "\n"),*),
            weight: $crate::kernel::choice::choices!(@weight $($weight)?),
        }),*]
    };
    (@weight) => { 1 };
    (@weight $weight:literal) => { $weight };
}
pub(crate) use choices;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ROOT;

    #[test]
    fn every_key_and_every_value_has_a_meaning() {
        let mut kernel = Kernel::built_in(ROOT).unwrap();
        let keys: Vec<String> = kernel.settings.iter().map(|it| format!("{}.{}", it.section, it.key)).collect();
        assert_eq!(all().map(Choice::path).collect::<Vec<_>>(), keys);
        for it in all() {
            let path = it.path();
            assert!(!it.about().is_empty(), "{path} has no comment");
            for value in it.values {
                kernel.set(&path, value.name).unwrap_or_else(|error| panic!("{error}"));
                assert!(!value.about().is_empty(), "{path}: `{}` has no comment", value.name);
            }
            assert_eq!(matches!(it.default(), Value::Text(_)), !it.values.is_empty(), "{path}");
            assert_eq!(it.limits.is_none(), !it.values.is_empty(), "{path} is a number without limits, or a name with");
        }
    }

    #[test]
    fn a_swarm_draws_each_choice_at_a_time_of_its_own_and_from_values_that_it_may_have() {
        let mut orders: Vec<u32> = all().map(|it| it.draw_order).collect();
        orders.sort_unstable();
        let expected: Vec<u32> = (0..).take(orders.len()).collect();
        assert_eq!(orders, expected, "`drawn` of a new choice is {}", orders.len() - 1);
        let mut kernel = Kernel::built_in(ROOT).unwrap();
        for it in all() {
            let drawn = it.drawn();
            assert!(
                drawn.len() > 1 && drawn.iter().any(|value| *value != drawn[0]),
                "{} is always the same",
                it.path()
            );
            for value in drawn {
                kernel.set(&it.path(), &value).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn a_choice_is_found_with_and_without_its_section() {
        let found = Choice::find("lru.swappiness").unwrap();
        assert_eq!(Choice::find("swappiness").unwrap().path(), found.path());
        assert_eq!((found.limits, found.default()), (Some((0, 100)), Value::Integer(60)));
        assert!(Choice::find("reclaim.swappiness").is_none());
    }

    #[test]
    fn the_first_kernel_that_has_a_value_says_where_it_is_from() {
        let since = |path: &str, value: &str| Choice::find(path).unwrap().since(&Value::Text(value.into()));
        let Since { kernel, source } = since("reclaim.kswapd_priority", "by-scan-volume").unwrap();
        assert_eq!(kernel, "mm1-mmotm-20130606");
        assert!(source.contains("flatten kswapd priority loop"), "{source}");
        assert_eq!(since("lru.policy", "clock"), None);
    }
}
