//! The declaration of choices. This is the lowest module, because every floor (layer of the engine) declares its own
//! choices.
//!
//! A floor declares its choices in its file `choices.rs`, by one call of the macro `choices!`. The macro makes the
//! section's struct `Choices`, an enum for each choice among names, and a [`Section`]. The [`Section`] holds the
//! meaning of each key and value, its default, its limits, and the values that a swarm (a run of many random worlds)
//! draws. The command `explain`, the swarm, messages, `docs/choices.md` and [`crate::kernel::Choices::check`] read the
//! section through [`crate::kernel::choice`].
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
//! The enums have no `==`: code that reads a choice matches it, so that a new value does not compile before every
//! reader handles it. For a choice between yes and no, a method beside the declaration returns a `bool`.
//!
//! A value is named after its variant, in kebab-case. The number after `drawn` is the choice's position in the order in
//! which a swarm draws choices. A new choice comes last, so that the worlds of existing seeds keep the values drawn
//! before it.
//!
//! A choice that is read only under a condition has the condition behind `drawn`: `with "swap.window" in ["by-use"]`,
//! or `unless "reclaim.direct_reclaimers" in ["0"]`. There may be several conditions, every `with` before every
//! `unless`, and all must hold. A name with a dot is another key; a name without a dot is a fact of the machine (see
//! [`Condition`]). A condition behind `[section]` applies to all keys of the section. Tests of a swarm prove that a
//! choice whose condition does not hold changes nothing.
//!
//! A default is the value in the oldest kernel, [`crate::kernel::ROOT`], whose file has the same values.
//! [`Choice::since`] returns the first kernel in which another value holds, as kernel files say.

use placed::{Entry, Node, Place, Value};
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};
use std::fmt;

/// A section of kernel files: the choices of one layer of the engine.
#[derive(Debug)]
pub struct Section {
    /// Name of the section in kernel files, such as `reclaim`.
    pub name: &'static str,
    pub(crate) comment: &'static str,
    /// Conditions under which the keys of the section are read; all must hold.
    pub conditions: &'static [Condition],
    /// The choices that are keys of the section.
    pub choices: &'static [Choice],
}

/// A condition under which a choice is read.
#[derive(Debug)]
pub struct Condition {
    /// The key that the condition is about, such as `lru.policy`. A name without a dot is a fact of the machine, one of
    /// [`FACTS`].
    pub what: &'static str,
    /// The values with which the key is compared, as a kernel file has them, without quotes.
    pub values: &'static [&'static str],
    /// `true` if the key must have one of the values; `false` if it must have none of them.
    pub is_one: bool,
}

/// Names of facts about a machine on which it depends whether the engine reads a choice. The facts are the number of
/// memory nodes, the number of swap slots, and whether swap completes a request at once (`yes`, `no`).
pub const FACTS: [&str; 3] = ["memory nodes", "swap slots", "synchronous swap"];

/// A key of a kernel file.
#[derive(Debug)]
pub struct Choice {
    /// Name of the key's section. A section belongs to a module of the engine.
    pub section: &'static str,
    /// The key, without its section.
    pub key: &'static str,
    pub(crate) comment: &'static str,
    /// Conditions under which this key is read, in addition to the conditions of its section.
    pub own_conditions: &'static [Condition],
    /// The values that have names; empty if the value is a number.
    pub values: &'static [Named],
    /// Smallest and largest value of a number. If the kernel has a sysctl for the choice, these are the sysctl's
    /// limits. Otherwise the limits exclude values that no machine has.
    pub limits: Option<(i64, i64)>,
    /// Position in the order in which a swarm (a run of many random worlds) draws choices. No two choices have the same
    /// position.
    pub draw_order: u32,
    /// The numbers from which a swarm (a run of many random worlds) draws the value, each with the same probability.
    /// Empty for a choice whose values have names.
    pub drawn_numbers: &'static [&'static str],
}

/// One of the values of a choice whose values have names and are not numbers.
#[derive(Debug)]
pub struct Named {
    /// The name of the value, as a kernel file has it.
    pub name: &'static str,
    pub(crate) comment: &'static str,
    /// Weight with which a swarm (a run of many random worlds) draws this value, relative to the other values of the
    /// choice.
    pub weight: u32,
}

impl Section {
    /// Returns the description of the section: the text of its doc comment, in one line.
    #[must_use]
    pub fn about(&self) -> String {
        prose(self.comment)
    }
}

impl Choice {
    /// Returns the section and the key, as on the command line: `lru.swappiness`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// Returns the description of the choice: the text of its doc comment, in one line.
    #[must_use]
    pub fn about(&self) -> String {
        prose(self.comment)
    }

    /// Returns the values that a swarm (a run of many random worlds) draws from, as a kernel file writes them. Each
    /// value occurs as often as its weight says.
    #[must_use]
    pub fn drawn(&self) -> Vec<String> {
        let names = self.values.iter().flat_map(|value| (0..value.weight).map(|_| format!("\"{}\"", value.name)));
        names.chain(self.drawn_numbers.iter().map(|&number| number.to_owned())).collect()
    }
}

impl Named {
    /// Returns the description of the value: the text of its doc comment, in one line.
    #[must_use]
    pub fn about(&self) -> String {
        prose(self.comment)
    }
}

/// Returns the doc comment of a declaration in one line, without the brackets of links.
fn prose(comment: &str) -> String {
    let lines: Vec<&str> = comment.lines().map(str::trim).collect();
    lines.join(" ").trim().replace("[`", "`").replace("`]", "`")
}

/// The error for a number outside of the limits of its key: the section of the key, and a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub section: &'static str,
    pub message: String,
}

/// The value of a choice that is a number or a list of numbers.
pub(crate) trait Numbers {
    fn numbers(&self) -> impl Iterator<Item = i128>;

    /// Returns the value as a kernel file has it.
    ///
    /// # Panics
    /// When a number is above `i64::MAX`, the highest limit of a choice.
    fn value(&self) -> Value;
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Numbers for $type {
            fn numbers(&self) -> impl Iterator<Item = i128> {
                std::iter::once(i128::from(*self))
            }

            fn value(&self) -> Value {
                integer(i128::from(*self))
            }
        })*
    };
}
numbers!(u8, u32, u64, i64);

impl<const N: usize> Numbers for [u64; N] {
    fn numbers(&self) -> impl Iterator<Item = i128> {
        self.iter().map(|&number| i128::from(number))
    }

    fn value(&self) -> Value {
        Value::List(self.numbers().map(|number| Node::new(DEFAULT, integer(number))).collect())
    }
}

fn integer(number: i128) -> Value {
    Value::Integer(number.try_into().expect("a kernel file can have it"))
}

/// The origin of a default value, as a place names it.
pub(crate) const DEFAULT: &str = "default";

/// Returns a table with these keys and values.
pub(crate) fn table<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let place = Place { file: DEFAULT.into(), line: 0 };
    let entry = |(key, value): (&str, _)| Entry {
        key: key.to_owned(),
        place: place.clone(),
        node: Node { place: place.clone(), comment: None, value },
    };
    Value::Table(entries.into_iter().map(entry).collect())
}

/// Reads the name of a value, one of `names`. Returns the position of the name. The enums of choices share this function,
/// because serde's derived functions for more than a hundred enums would be a third of this crate.
pub(crate) fn read_name<'de, D: Deserializer<'de>>(
    deserializer: D,
    names: &'static [&'static str],
) -> Result<usize, D::Error> {
    deserializer.deserialize_enum("a choice", names, Names(names))
}

/// The names of a choice's values, as a visitor that reads one of them.
struct Names(&'static [&'static str]);

impl<'de> Visitor<'de> for Names {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.0.join(", "))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<usize, A::Error> {
        let (position, variant) = access.variant_seed(self)?;
        variant.unit_variant().map(|()| position)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<usize, E> {
        let position = self.0.iter().position(|known| *known == name);
        position.ok_or_else(|| E::unknown_variant(name, self.0))
    }
}

impl<'de> DeserializeSeed<'de> for Names {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

/// Checks that the numbers in the value of a choice are within the limits of the choice. This is the only check, both
/// for kernel files and for choices made in Rust.
pub(crate) fn check_limits(choice: &'static Choice, numbers: &impl Numbers) -> Result<(), Refused> {
    let Some((low, high)) = choice.limits else { return Ok(()) };
    let Some(found) = numbers.numbers().find(|number| !(i128::from(low)..=i128::from(high)).contains(number)) else {
        return Ok(());
    };
    let range = if high == i64::MAX { format!("at least {low}") } else { format!("{low} to {high}") };
    let message = format!("`{}`: expected {range}, found {found}", choice.key);
    Err(Refused { section: choice.section, message })
}

/// Declares the choices of a section; the documentation of the module `choice` shows the form.
macro_rules! choices {
    (
        $(#[doc = $comment:literal])*
        [$section:ident] $(, with $only_with:literal in [$($only_value:literal),+])*
        $(
            $(#[doc = $about:literal])*
            $key:ident: $type:tt = $default:tt $(in $limits:expr)?, drawn $order:literal
            $(, with $with:literal in [$($with_value:literal),+])*
            $(, unless $unless:literal in [$($unless_value:literal),+])*
            $(: [$($drawn:expr),* $(,)?];)?
            $({ $($values:tt)* })?
        )*
    ) => {
        $(
            $crate::choice::choices! {
                @enum $type = $default $(#[doc = $about])* [$($($values)*)?]
            }
        )*

        #[doc = concat!("The section `[", stringify!($section), "]` of a kernel file.")]
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Choices {
            $($(#[doc = $about])* pub $key: $type,)*
        }

        impl PartialEq for Choices {
            fn eq(&self, other: &Self) -> bool {
                $($crate::choice::choices!(@eq self.$key, other.$key, [$($($values)*)?]))&&*
            }
        }

        impl Eq for Choices {}

        impl Default for Choices {
            fn default() -> Self {
                Self { $($key: $crate::choice::choices!(@default $type = $default [$($($values)*)?]),)* }
            }
        }

        impl Choices {
            /// Returns the section as a table: each key with its value.
            pub(crate) fn table(&self) -> placed::Value {
                let values = [$($crate::choice::choices!(@value $type, self.$key, [$($($values)*)?])),*];
                $crate::choice::table(SECTION.choices.iter().map(|choice| choice.key).zip(values))
            }

            /// Checks that every number of the section is within the limits of its key.
            pub(crate) fn check_limits(&self) -> Result<(), $crate::choice::Refused> {
                let mut _choices = SECTION.choices.iter();
                $(
                    let _choice = _choices.next().expect("each key is declared once");
                    $(
                        // Choices among names have no limits.
                        let _: std::ops::RangeInclusive<i64> = $limits;
                        $crate::choice::check_limits(_choice, &self.$key)?;
                    )?
                )*
                Ok(())
            }
        }

        /// The section of a kernel file (the description of a simulated kernel) that holds the choices of this module.
        pub static SECTION: $crate::choice::Section = $crate::choice::Section {
            name: stringify!($section),
            comment: concat!($($comment, "\n"),*),
            conditions: &[$($crate::choice::choices!(@condition true $only_with [$($only_value),+])),*],
            choices: &[$($crate::choice::Choice {
                section: stringify!($section),
                key: stringify!($key),
                comment: concat!($($about, "\n"),*),
                own_conditions: &[
                    $($crate::choice::choices!(@condition true $with [$($with_value),+]),)*
                    $($crate::choice::choices!(@condition false $unless [$($unless_value),+]),)*
                ],
                values: $crate::choice::choices!(@values $type [$($($values)*)?]),
                limits: $crate::choice::choices!(@limits $($limits)?),
                draw_order: $order,
                drawn_numbers: {
                    $(const _: &[$type] = &[$($drawn),*];)?
                    &[$($(stringify!($drawn)),*)?]
                },
            }),*],
        };
    };

    // Declares the enum of a choice among names, and nothing for a number.
    (@enum $type:tt = $default:tt $(#[doc = $about:literal])* []) => {};
    (
        @enum $type:ident = $default:ident $(#[doc = $about:literal])*
        [$($(#[doc = $comment:literal])* $variant:ident $(drawn $weight:literal)?,)+]
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, strum::VariantNames)]
        #[strum(serialize_all = "kebab-case")]
        pub enum $type {
            $($(#[doc = $comment])* $variant,)+
        }

        impl Default for $type {
            fn default() -> Self {
                Self::$default
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let position = $crate::choice::read_name(deserializer, <Self as strum::VariantNames>::VARIANTS)?;
                Ok([$(Self::$variant),+][position])
            }
        }
    };

    (@condition $is_one:literal $what:literal [$($value:literal),+]) => {
        $crate::choice::Condition { what: $what, values: &[$($value),+], is_one: $is_one }
    };

    (@eq $a:expr, $b:expr, []) => { $a == $b };
    (@eq $a:expr, $b:expr, [$($values:tt)+]) => { $a as usize == $b as usize };

    (@value $type:tt, $value:expr, []) => { $crate::choice::Numbers::value(&$value) };
    (@value $type:tt, $value:expr, [$($values:tt)+]) => {
        placed::Value::Text(<$type as strum::VariantNames>::VARIANTS[$value as usize].to_owned())
    };

    (@default $type:tt = $default:tt []) => { $default };
    (@default $type:ident = $default:ident [$($values:tt)+]) => { $type::$default };

    (@limits) => { None };
    (@limits $limits:expr) => {{
        let limits: std::ops::RangeInclusive<i64> = $limits;
        Some((*limits.start(), *limits.end()))
    }};

    (@values $type:tt []) => { &[] };
    (@values $type:ident [$($(#[doc = $comment:literal])* $variant:ident $(drawn $weight:literal)?,)+]) => {
        &[$($crate::choice::Named {
            name: <$type as strum::VariantNames>::VARIANTS[$type::$variant as usize],
            comment: concat!($($comment, "\n"),*),
            weight: $crate::choice::choices!(@weight $($weight)?),
        }),*]
    };
    (@weight) => { 1 };
    (@weight $weight:literal) => { $weight };
}
pub(crate) use choices;
