//! Replay of a trace without time: its requests in memory ([`source`]), and the sizes of the caches that replay them
//! ([`sizes`]). The command `highwater replay` and the Python package use it; the caches are in the crate `cache`.

pub mod sizes;
pub mod source;

use ::cache::WarmUp;

/// Parses the length of a warm-up: a share of the requests such as `10%`, or a number of requests.
///
/// # Errors
/// When the text is neither, or a share of 100 %.
pub fn parse_warm_up(text: &str) -> Result<WarmUp, String> {
    match sizes::parse_share(text) {
        Some(share) if share < 1.0 => Ok(WarmUp::Share(share)),
        Some(_) => Err("with 100 %, no request is left to be counted: expected a smaller share".into()),
        None => {
            text.parse().map(WarmUp::Requests).map_err(|_| "expected a share such as 10%, or a whole number".into())
        }
    }
}

/// Returns the policy called `name`.
///
/// # Errors
/// When no policy has this name. The message lists all names.
pub fn policy(name: &str) -> Result<::cache::Kind, String> {
    ::cache::Kind::named(name.trim()).ok_or_else(|| {
        let known: Vec<&str> = ::cache::Kind::ALL.into_iter().map(::cache::Kind::name).collect();
        format!("expected one of {}", known.join(", "))
    })
}
