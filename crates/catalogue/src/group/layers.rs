//! Memory control groups from several sources, joined into one list: those of a machine file, of an experiment, and of
//! the command line.

use super::GROUPS_MAX;
use placed::{Entry, Error, Node, Place, Value, one_of};
use std::collections::BTreeMap;

/// Key of the list of groups in a file.
const LIST: &str = "group";

/// Returns the tables of the groups in a file; an empty slice if the file has no list of groups.
pub(crate) fn tables(file: &Node) -> &[Node] {
    match file.get(LIST).map(|node| &node.value) {
        Some(Value::List(tables)) => tables,
        _ => &[],
    }
}

/// Returns the list of groups in a file. Adds an empty list if the file has none. Returns none if the key `group` holds
/// a value that is not a list.
fn list(file: &mut Node) -> Option<&mut Vec<Node>> {
    let place = file.place.clone();
    let Value::Table(entries) = &mut file.value else { return None };
    let at = entries.iter().position(|entry| entry.key == LIST).unwrap_or_else(|| {
        let node = Node { place: place.clone(), comment: None, value: Value::List(Vec::new()) };
        entries.push(Entry { key: LIST.into(), place, node });
        entries.len() - 1
    });
    match &mut entries[at].node.value {
        Value::List(tables) => Some(tables),
        _ => None,
    }
}

fn text<'n>(table: &'n Node, key: &str) -> Option<&'n str> {
    table.get(key).and_then(Node::as_text)
}

/// Returns whether a group is called `name`. This is so if `name` is the value of the group's key `name`, or the keys
/// `parent` and `name` joined by a `/`.
fn is_called(table: &Node, name: &str) -> bool {
    let Some(own) = text(table, "name") else { return false };
    let path = || text(table, "parent").is_some_and(|parent| format!("{parent}/{own}") == name);
    own == name || path()
}

/// Returns the index of the group called `name` in a list of groups. `name` is the path of a group (`PARENT/OWN-NAME`),
/// or, if no group has this path, the own name of exactly one group. Returns none if no group, or more than one, has
/// the own name.
pub(crate) fn position(tables: &[Node], name: &str) -> Option<usize> {
    let path = |table: &Node| {
        let own = text(table, "name")?;
        Some(text(table, "parent").map_or_else(|| own.to_owned(), |parent| format!("{parent}/{own}")))
    };
    if let Some(n) = tables.iter().position(|table| path(table).as_deref() == Some(name)) {
        return Some(n);
    }
    let mut called = (0..tables.len()).filter(|n| is_called(&tables[*n], name));
    called.next().filter(|_| called.next().is_none())
}

/// Adds groups to the machine file `file`. If the file already has a group with the name of an added group, the two
/// become one: keys of the added group replace the same keys of the file's group, and the other keys of the file's
/// group stay.
pub(crate) fn lay_over(file: &mut Node, groups: &[Node]) {
    if groups.is_empty() {
        return;
    }
    let Some(tables) = list(file) else { return };
    for group in groups {
        let name = text(group, "name").unwrap_or_default();
        let path = text(group, "parent").map(|parent| format!("{parent}/{name}"));
        match position(tables, path.as_deref().unwrap_or(name)) {
            Some(n) => tables[n] = group.clone().over(tables[n].clone()),
            None => tables.push(group.clone()),
        }
        if tables.len() > GROUPS_MAX {
            // `resolve` refuses them.
            break;
        }
    }
}

/// Adds an empty group called `name` to the machine file `file`, unless the file has a group with this name.
pub(crate) fn declare(file: &mut Node, name: &str, place: &Place) {
    let node = |value| Node { place: place.clone(), comment: None, value };
    let own = Entry { key: "name".into(), place: place.clone(), node: node(Value::Text(name.to_owned())) };
    if let Some(tables) = list(file).filter(|tables| position(tables, name).is_none()) {
        tables.push(node(Value::Table(vec![own])));
    }
}

/// Most levels of groups below the root group. Deeper trees are mistakes: systemd and Kubernetes have fewer than ten.
pub(super) const LEVELS_MAX: usize = 100;

/// Length, bytes, of the longest list of group names in an error. A longer list is left out.
const HINT_MAX: usize = 300;

/// Gives each group of a machine its path as its name, instead of a name and a parent. Moves parents before their
/// children. Leaves groups with values of a wrong type as they are; the code that reads the groups later refuses them.
///
/// # Errors
/// When there are too many groups or levels, when a parent is unknown, when several groups have the name of a parent, or
/// when a group is its own ancestor. The error has file and line.
pub(crate) fn resolve(file: &mut Node) -> Result<(), Error> {
    let given = tables(file).to_vec();
    if given.is_empty() || given.iter().any(|table| text(table, "name").is_none()) {
        return Ok(());
    }
    if let Some(table) = given.get(GROUPS_MAX) {
        return Err(Error::at(&table.place, format!("in [[group]]: at most {GROUPS_MAX} groups can be")));
    }
    let paths = Paths::new(&given).all()?;
    let mut order = Vec::new();
    (0..given.len()).for_each(|n| put(&paths, n, &mut order));
    let with_path = |n: usize| {
        let mut table = given[n].clone();
        if table.take("parent").is_some()
            && let Value::Table(entries) = &mut table.value
        {
            let name = entries.iter_mut().filter(|entry| entry.key == "name");
            name.for_each(|entry| entry.node.value = Value::Text(paths[n].clone()));
        }
        table
    };
    if let Some(tables) = list(file) {
        *tables = order.into_iter().map(with_path).collect();
    }
    Ok(())
}

/// The paths of a machine file's groups, as far as they have been found. The path of a group is found after that of its
/// parent.
struct Paths<'t> {
    tables: &'t [Node],
    /// For each name by which a key `parent` may refer to groups, the indices of these groups in `tables`. A group has
    /// up to two such names: its `name`, and, if it has a `parent`, the text of this `parent`, a `/`, and its `name`.
    called: BTreeMap<String, Vec<usize>>,
    /// For each path found so far, the index of its group in `tables`.
    groups: BTreeMap<String, usize>,
    known: Vec<Option<String>>,
}

impl<'t> Paths<'t> {
    fn new(tables: &'t [Node]) -> Self {
        let mut called: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (n, table) in tables.iter().enumerate() {
            let own = text(table, "name").unwrap_or_default();
            let path = text(table, "parent").map(|parent| format!("{parent}/{own}"));
            [Some(own.to_owned()), path].into_iter().flatten().for_each(|name| called.entry(name).or_default().push(n));
        }
        Self { tables, called, groups: BTreeMap::new(), known: vec![None; tables.len()] }
    }

    /// Returns the path of each group, in the order in which the groups stand in `tables`.
    fn all(mut self) -> Result<Vec<String>, Error> {
        let mut unknown: Vec<usize> = (0..self.tables.len()).collect();
        while !unknown.is_empty() {
            let before = unknown.len();
            let mut left = Vec::new();
            for n in unknown {
                if !self.find(n)? {
                    left.push(n);
                }
            }
            if left.len() == before {
                return Err(self.why_unknown(left[0]));
            }
            unknown = left;
        }
        Ok(self.known.into_iter().flatten().collect())
    }

    fn name(&self, n: usize) -> &'t str {
        text(&self.tables[n], "name").unwrap_or_default()
    }

    /// Returns the groups to which the value `parent` of a key `parent` may refer, as indices in `tables`. There may be
    /// several, because groups with different paths may have the same name.
    fn called(&self, parent: &str) -> &[usize] {
        self.called.get(parent).map_or(&[], Vec::as_slice)
    }

    /// Determines the path of group `n`, and stores it. Returns `true` if this succeeded; `false` if the path of the
    /// group's parent is not known yet.
    ///
    /// # Errors
    /// When several groups have the parent's name, or when the group is too deep in the tree.
    fn find(&mut self, n: usize) -> Result<bool, Error> {
        let path = match text(&self.tables[n], "parent") {
            None => self.name(n).to_owned(),
            Some(parent) => {
                let above = match self.called(parent) {
                    [one] => self.known[*one].as_deref(),
                    [] => self.groups.contains_key(parent).then_some(parent),
                    _ => {
                        return Err(
                            self.refused(n, &format!("there are several groups `{parent}`: expected the path of one"))
                        );
                    }
                };
                let Some(above) = above else { return Ok(false) };
                format!("{above}/{}", self.name(n))
            }
        };
        if path.split('/').count() > LEVELS_MAX {
            let place = self.tables[n].get("name").map_or(&self.tables[n].place, |node| &node.place);
            let name = self.name(n).rsplit('/').next().unwrap_or_default();
            let why = format!("`{name}` is too deep in the tree: at most {LEVELS_MAX} levels can be");
            return Err(Error::at(place, format!("in [[group]]: {why}")));
        }
        self.groups.insert(path.clone(), n);
        self.known[n] = Some(path);
        Ok(true)
    }

    /// Returns the error for group number `n`, whose path cannot be found: either there is no group with the name of
    /// its parent or of a further ancestor, or the groups are parents of each other in a circle.
    fn why_unknown(&self, n: usize) -> Error {
        // Each group is a child of the next.
        let mut chain = vec![n];
        loop {
            let last = chain[chain.len() - 1];
            let parent = text(&self.tables[last], "parent").unwrap_or_default();
            match self.called(parent) {
                [above, ..] if chain.contains(above) => {
                    let circle = chain.iter().skip_while(|it| *it != above).chain([above]);
                    let circle: Vec<&str> = circle.map(|it| self.name(*it)).collect();
                    return self.refused(last, &format!("the groups go round in a circle: {}", shortened(&circle)));
                }
                [above, ..] => chain.push(*above),
                [] => {
                    let others = (0..self.tables.len()).filter(|it| *it != last).map(|it| self.name(it));
                    // Many names are no help, except for the one that may be meant.
                    let hint = one_of(parent, &others.collect::<Vec<&str>>());
                    let hint = if hint.len() > HINT_MAX { "" } else { &hint };
                    return self.refused(last, &format!("there is no [[group]] `{parent}`{hint}"));
                }
            }
        }
    }

    fn refused(&self, n: usize, why: &str) -> Error {
        let place = self.tables[n].get("parent").map_or(&self.tables[n].place, |node| &node.place);
        Error::at(place, format!("in [[group]]: `parent` of `{}`: {why}", self.name(n)))
    }
}

/// Returns, as text, the names of groups of which each is the child of the next, and the last is the first again.
/// Leaves out the middle of a long list.
fn shortened(circle: &[&str]) -> String {
    const ENDS: usize = 4;
    if circle.len() <= 2 * ENDS {
        return circle.join(" -> ");
    }
    let (first, last) = (circle[..ENDS].join(" -> "), circle[circle.len() - ENDS..].join(" -> "));
    format!("{first} -> ({} more) -> {last}", circle.len() - 2 * ENDS)
}

/// Adds group `n` to `order`. Adds its ancestors first, if `order` does not have them yet.
fn put(paths: &[String], n: usize, order: &mut Vec<usize>) {
    if order.contains(&n) {
        return;
    }
    let parent = paths[n].rsplit_once('/').and_then(|(parent, _)| paths.iter().position(|path| path == parent));
    if let Some(parent) = parent {
        put(paths, parent, order);
    }
    order.push(n);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let mut node = Node::parse("m.toml", text).unwrap();
        resolve(&mut node).map_err(|error| error.to_string())?;
        Ok(tables(&node).iter().map(|table| super::text(table, "name").unwrap().to_owned()).collect())
    }

    #[test]
    fn groups_have_their_paths_and_parents_stand_first() {
        let text = "[[group]]\nname = \"b\"\n[[group]]\nname = \"pod/inner/x\"\n[[group]]\nname = \"inner\"\nparent = \"pod\"\n\
                    [[group]]\nname = \"pod\"\n[[group]]\nname = \"y\"\nparent = \"pod/inner\"\n";
        assert_eq!(names(text).unwrap(), ["b", "pod", "pod/inner", "pod/inner/x", "pod/inner/y"]);
        let sorted = "[[group]]\nname = \"a\"\n[[group]]\nname = \"a/x\"\n[[group]]\nname = \"0\"\n";
        assert_eq!(names(sorted).unwrap(), ["a", "a/x", "0"], "an order that has parents first stays");
    }

    #[test]
    fn parents_that_cannot_be_are_refused_with_their_line() {
        let group = |name: &str, parent: &str| format!("[[group]]\nname = \"{name}\"\nparent = \"{parent}\"\n");
        assert_eq!(
            names(&[group("a", "b"), group("b", "c"), group("c", "a")].concat()).unwrap_err(),
            "m.toml:9: in [[group]]: `parent` of `c`: the groups go round in a circle: a -> b -> c -> a"
        );
        assert_eq!(
            names(&group("a", "a")).unwrap_err(),
            "m.toml:3: in [[group]]: `parent` of `a`: the groups go round in a circle: a -> a"
        );
        assert_eq!(
            names(&format!("[[group]]\nname = \"server\"\n{}", group("a", "sever"))).unwrap_err(),
            "m.toml:5: in [[group]]: `parent` of `a`: there is no [[group]] `sever`: did you mean `server`?"
        );
        let two = "[[group]]\nname = \"p\"\n[[group]]\nname = \"q\"\n";
        let several = [two, &group("x", "p"), &group("x", "q"), &group("y", "x")].concat();
        assert!(names(&several).unwrap_err().ends_with("there are several groups `x`: expected the path of one"));
    }

    /// Returns the text of a chain of `levels` groups: `g0` is the parent of `g1`, which is the parent of `g2`, and so
    /// on. The text has the groups in reverse order.
    fn chain(levels: usize) -> String {
        let table = |n: usize| match n {
            0 => "[[group]]\nname = \"g0\"\n".to_owned(),
            n => format!("[[group]]\nname = \"g{n}\"\nparent = \"g{}\"\n", n - 1),
        };
        (0..levels).rev().map(table).collect()
    }

    #[test]
    fn parents_may_have_parents() {
        let paths = names(&chain(LEVELS_MAX)).unwrap();
        assert_eq!((paths[0].as_str(), paths[3].as_str(), paths.len()), ("g0", "g0/g1/g2/g3", LEVELS_MAX));
        let by_path = "[[group]]\nname = \"c\"\nparent = \"a/b\"\n[[group]]\nname = \"d\"\nparent = \"a/b/c\"\n\
                       [[group]]\nname = \"b\"\nparent = \"a\"\n[[group]]\nname = \"a\"\n";
        assert_eq!(names(by_path).unwrap(), ["a", "a/b", "a/b/c", "a/b/c/d"]);
        let by_name = by_path.replace("\"a/b\"", "\"b\"");
        assert_eq!(names(&by_name).unwrap(), ["a", "a/b", "a/b/c", "a/b/c/d"], "a path of short names");
    }

    #[test]
    fn absurd_trees_are_refused_at_once() {
        let told = |text: &str| names(text).unwrap_err();
        assert_eq!(
            told(&chain(LEVELS_MAX + 1)),
            "m.toml:2: in [[group]]: `g100` is too deep in the tree: at most 100 levels can be"
        );
        assert_eq!(told(&chain(10_000)), "m.toml:6001: in [[group]]: at most 2000 groups can be");
        let deep = format!("[[group]]\nname = \"{}\"\n", vec!["a"; 10_000].join("/"));
        assert_eq!(told(&deep), "m.toml:2: in [[group]]: `a` is too deep in the tree: at most 100 levels can be");
        let circle = chain(1000).replacen("name = \"g0\"\n", "name = \"g0\"\nparent = \"g999\"\n", 1);
        assert!(told(&circle).ends_with("g999 -> g998 -> g997 -> g996 -> (993 more) -> g2 -> g1 -> g0 -> g999"));
    }

    #[test]
    fn a_path_goes_before_a_last_name() {
        let node = |text: &str| Node::parse("m.toml", text).unwrap();
        let file = node(
            "[[group]]\nname = \"x\"\nparent = \"a\"\n[[group]]\nname = \"y\"\nparent = \"a\"\n[[group]]\nname = \"x\"\n",
        );
        let found = |name: &str| position(tables(&file), name);
        assert_eq!(["x", "a/x", "y", "z"].map(found), [Some(2), Some(0), Some(1), None]);
        let twice = node("[[group]]\nname = \"x\"\nparent = \"a\"\n[[group]]\nname = \"x\"\nparent = \"b\"\n");
        assert_eq!(position(tables(&twice), "x"), None);
    }

    #[test]
    fn groups_of_an_experiment_add_to_those_of_the_machine_or_replace_their_keys() {
        let parse = |text: &str| Node::parse("e.toml", text).unwrap();
        let mut file = parse("[[group]]\nname = \"a\"\nmax_mib = 8\nlow_mib = 1\n[[group]]\nname = \"a/b\"\n");
        let above = parse(
            "[[group]]\nname = \"c\"\n[[group]]\nname = \"a\"\nlow_mib = 2\n[[group]]\nname = \"b\"\nparent = \"a\"\nlow_mib = 3\n",
        );
        lay_over(&mut file, tables(&above));
        resolve(&mut file).unwrap();
        let shown: Vec<_> = tables(&file)
            .iter()
            .map(|table| ["name", "max_mib", "low_mib"].map(|key| table.get(key).map(|node| node.value.to_string())))
            .collect();
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(
            shown,
            [[of("\"a\""), of("8"), of("2")], [of("\"a/b\""), None, of("3")], [of("\"c\""), None, None],]
        );
        let mut none = parse("about = \"x\"\n");
        lay_over(&mut none, &[]);
        assert!(none.get("group").is_none());
        lay_over(&mut none, tables(&above));
        assert_eq!(tables(&none).len(), 3);
    }
}
