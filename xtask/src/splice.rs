//! Marked places in texts. A place consists of a line `<!-- KIND: NAME -->`, the inserted text, and `<!-- end -->`.

const END: &str = "<!-- end -->";

/// Replaces the inserted text of marked places in `text`, and returns the result. The places are those whose first line
/// starts with `begin`, which is followed by the name of the place. `body` returns the new text for a name; if it
/// returns `None`, the place keeps its text. Fails if `body` fails, or if the end of a place is missing.
pub fn spliced(
    text: &str,
    begin: &str,
    body: &dyn Fn(&str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let mut new = String::new();
    let mut rest = text;
    while let Some(at) = places(rest, begin).next() {
        let (before, marked) = rest.split_at(at);
        let name = name_of(marked, begin);
        let end = marked.find(END).ok_or_else(|| format!("no {END} after {begin}{name}"))?;
        new.push_str(before);
        match body(name)? {
            Some(body) => new.push_str(&format!("{begin}{name} -->\n{}\n", body.trim_end())),
            None => new.push_str(&marked[..end]),
        }
        rest = &marked[end..];
    }
    new.push_str(rest);
    Ok(new)
}

/// Returns the names of the places in a text, in order. A place begins with a line such as `<!-- fidelity: NAME -->`;
/// `begin` is the part of this line before the name.
pub fn names<'a>(text: &'a str, begin: &'a str) -> impl Iterator<Item = &'a str> {
    places(text, begin).map(move |at| name_of(&text[at..], begin))
}

/// Returns the offsets of the lines that begin with `begin`.
fn places<'a>(text: &'a str, begin: &'a str) -> impl Iterator<Item = usize> {
    text.match_indices(begin).map(|(at, _)| at).filter(|at| *at == 0 || text[..*at].ends_with('\n'))
}

fn name_of<'a>(marked: &'a str, begin: &str) -> &'a str {
    marked[begin.len()..].split(" -->").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gets_its_body_and_the_rest_stays() {
        let old = "a\n<!-- it: x -->\nold\n<!-- end -->\nb\n<!-- it: y -->\nkept\n<!-- end -->\n";
        let body = |name: &str| Ok((name == "x").then(|| "new\n".to_owned()));
        let new = spliced(old, "<!-- it: ", &body).unwrap();
        assert_eq!(new, old.replace("old", "new"));
        assert_eq!(spliced(&new, "<!-- it: ", &body).unwrap(), new);
        assert_eq!(names(old, "<!-- it: ").collect::<Vec<_>>(), ["x", "y"]);
        assert!(spliced("<!-- it: x -->", "<!-- it: ", &body).is_err());
        assert!(spliced("between `<!-- it: x -->`", "<!-- it: ", &body).is_ok(), "a text about places has none");
    }
}
