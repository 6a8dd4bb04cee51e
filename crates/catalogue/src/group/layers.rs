//! Groups from several sources as one list: those of a machine file, of an experiment, and of the command line.

use placed::{Entry, Error, Node, Place, Value, one_of};

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

/// Returns the index of the group in a list whose path is `name`. If no group has this path, returns the index of the
/// only group whose key `name` is `name`.
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

/// Gives each group of a machine its path as its name, instead of a name and a parent. Moves parents before their
/// children. Leaves groups with values of a wrong type as they are; the code that reads the groups later refuses them.
///
/// # Errors
/// When a parent is unknown, when several groups have the name of a parent, or when a group is its own ancestor. The
/// error has file and line.
pub(crate) fn resolve(file: &mut Node) -> Result<(), Error> {
    let given = tables(file).to_vec();
    if given.is_empty() || given.iter().any(|table| text(table, "name").is_none()) {
        return Ok(());
    }
    let paths = (0..given.len()).map(|n| path(&given, n, &mut Vec::new())).collect::<Result<Vec<String>, Error>>()?;
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

/// Returns the path of group `n`. `above` holds the descendants of group `n` whose paths are being computed, the
/// deepest first: each is a child of the next one, and the last is a child of `n`.
fn path(tables: &[Node], n: usize, above: &mut Vec<usize>) -> Result<String, Error> {
    let name = |n: usize| text(&tables[n], "name").unwrap_or_default();
    let Some((node, parent)) = tables[n].get("parent").and_then(|node| Some((node, node.as_text()?))) else {
        return Ok(name(n).to_owned());
    };
    let refuse = |why: String| Err(Error::at(&node.place, format!("in [[group]]: `parent` of `{}`: {why}", name(n))));
    above.push(n);
    let found: Vec<usize> = (0..tables.len()).filter(|it| is_called(&tables[*it], parent)).collect();
    match found.as_slice() {
        [one] if above.contains(one) => {
            let circle: Vec<&str> = above.iter().skip_while(|it| *it != one).chain([one]).map(|it| name(*it)).collect();
            refuse(format!("the groups go round in a circle: {}", circle.join(" -> ")))
        }
        [one] => {
            let path = path(tables, *one, above)?;
            above.pop();
            Ok(format!("{path}/{}", name(n)))
        }
        [] => {
            let others: Vec<&str> = (0..tables.len()).filter(|it| *it != n).map(name).collect();
            refuse(format!("there is no [[group]] `{parent}`{}", one_of(parent, &others)))
        }
        _ => refuse(format!("there are several groups `{parent}`: expected the path of one")),
    }
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
