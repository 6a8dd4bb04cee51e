//! Changes single values of a file that was read, as the command line does with `KEY=VALUE`.

use crate::group;
use placed::{Entry, Error, Node, Place, Value, one_of};

/// Keys of the number in a constant's table: the table has `value` or `ns`, for example `{ ns = 90, from = "fitted" }`.
/// A change of the constant replaces the value of this key.
const VALUES: [&str; 2] = ["value", "ns"];

/// Prefix of the paths of keys that a control group has in a machine file, such as `group.server.low_mib`.
const OF_GROUPS: &str = "group.";

/// The path of a change that adds a control group. The value of the change is the name of the group.
const NEW_GROUP: &str = "group";

/// Replaces the value under a path of keys, such as `cpu.count` or `disk.device.queue.command_depth`. In a list, a
/// number (from 0) or a `name` selects the element, as in `disk.1.swap_slots` and `group.server.low_mib`; without a
/// number or name, the first element is changed. A changed constant gets the keys `from = "assumed"` and `source =
/// "set"`. The path `group` adds a control group, whose name is `value`, unless a group has this name already.
///
/// # Errors
/// When there is no such key; the error names the nearest key.
pub fn change(root: &mut Node, path: &str, value: &str) -> Result<(), Error> {
    let place = Place { file: format!("{path}={value}").into(), line: 0 };
    if path == NEW_GROUP {
        group::declare(root, value, &place);
        return Ok(());
    }
    let value = parsed(value);
    let mut node = root;
    for key in path.split('.') {
        if let Value::List(nodes) = &node.value
            && let Some(n) = chosen(nodes, key)
        {
            let none = format!("`{key}`: the list has {}, counted from 0", nodes.len());
            node = item(node, n).ok_or_else(|| Error::at(&place, none))?;
            continue;
        }
        let entries = entries(node).ok_or_else(|| Error::at(&place, format!("`{key}` is not in a table")))?;
        // Keys of a group may be left out of the file. The reader refuses those that a group cannot have.
        if path.starts_with(OF_GROUPS) && path.ends_with(key) && entries.iter().all(|entry| entry.key != key) {
            let node = Node { place: place.clone(), comment: None, value: value.clone() };
            entries.push(Entry { key: key.into(), place: place.clone(), node });
        }
        let Some(at) = entries.iter().position(|entry| entry.key == key) else {
            let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
            return Err(Error::at(&place, format!("unknown key `{key}`{}", one_of(key, &keys))));
        };
        node = &mut entries[at].node;
    }
    let new = |value| Node { place: place.clone(), comment: None, value };
    if let Some(entries) = entries(node)
        && let Some(at) = entries.iter().position(|entry| VALUES.contains(&entry.key.as_str()))
    {
        entries[at].node = new(value);
        for (key, word) in [("from", "assumed"), ("source", "set")] {
            entries.retain(|entry| entry.key != key && (key != "source" || entry.key != "to"));
            entries.push(Entry { key: key.into(), place: place.clone(), node: new(Value::Text(word.into())) });
        }
        return Ok(());
    }
    *node = new(value);
    Ok(())
}

/// Replaces the value under a path of keys in `table`. Adds the key if there is none, and also the tables that lead to
/// it. Since any key can be added, the code that reads the table later must refuse unknown keys.
///
/// # Errors
/// The errors of [`change`], when the path goes through a value that is not a table.
pub fn set(table: &mut Node, path: &str, value: &str) -> Result<(), Error> {
    let place = Place { file: format!("{path}={value}").into(), line: 0 };
    let mut node = &mut *table;
    let mut keys = path.split('.').peekable();
    while let Some(key) = keys.next() {
        let Value::Table(entries) = &mut node.value else { return change(table, path, value) };
        let at = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            let value = if keys.peek().is_some() { Value::Table(Vec::new()) } else { parsed(value) };
            let node = Node { place: place.clone(), comment: None, value };
            entries.push(Entry { key: key.into(), place: place.clone(), node });
            entries.len() - 1
        });
        node = &mut entries[at].node;
    }
    change(table, path, value)
}

/// Returns the node under a path of keys. The path selects elements of lists as in [`change`]. None if there is no such
/// node.
#[must_use]
pub fn find<'n>(root: &'n Node, path: &str) -> Option<&'n Node> {
    path.split('.').try_fold(root, |node, key| match &node.value {
        Value::List(nodes) => match chosen(nodes, key) {
            Some(n) => nodes.get(n),
            None => nodes.first()?.get(key),
        },
        _ => node.get(key),
    })
}

/// Returns the index of the list element that `key` selects. `key` is the element's number or its `name`. Returns none
/// if `key` is not a number and no element has this name.
fn chosen(nodes: &[Node], key: &str) -> Option<usize> {
    group::position(nodes, key).or_else(|| key.parse().ok())
}

/// Parses a value as TOML. A value that is not TOML, such as a word without quotes, becomes a text.
fn parsed(value: &str) -> Value {
    let node = Node::parse("", &format!("v = {value}\n")).ok().and_then(|mut node| node.take("v"));
    node.map_or_else(|| Value::Text(value.to_owned()), |node| node.value)
}

/// Returns the element of a list at an index; none if there is no such element.
fn item(list: &mut Node, number: usize) -> Option<&mut Node> {
    match &mut list.value {
        Value::List(nodes) => nodes.get_mut(number),
        _ => None,
    }
}

/// Returns the entries of a table. For a list of tables, returns the entries of its first table. Returns `None` for
/// other nodes.
fn entries(node: &mut Node) -> Option<&mut Vec<Entry>> {
    match &mut node.value {
        Value::Table(entries) => Some(entries),
        Value::List(nodes) => entries(nodes.first_mut()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a = 1\n[cpu]\ncount = { value = 8, from = \"published\", source = \"print\" }\n[[disk]]\nn = 2\n";

    fn changed(path: &str, value: &str) -> Result<Node, String> {
        let mut node = Node::parse("m.toml", TEXT).unwrap();
        change(&mut node, path, value).map_err(|error| error.to_string())?;
        Ok(node)
    }

    #[test]
    fn a_value_is_replaced_and_its_origin_with_it() {
        let count = changed("cpu.count", "4").unwrap().get("cpu").unwrap().get("count").unwrap().clone();
        assert_eq!(count.get("value").unwrap().value, Value::Integer(4));
        assert_eq!((count.get("from").unwrap().as_text(), count.entries().len()), (Some("assumed"), 3));
        assert_eq!(changed("a", "text").unwrap().get("a").unwrap().as_text(), Some("text"));
        let Value::List(disks) = changed("disk.n", "3").unwrap().get("disk").unwrap().value.clone() else { panic!() };
        assert_eq!(disks[0].get("n").unwrap().value, Value::Integer(3));
    }

    #[test]
    fn a_key_is_added_with_its_tables() {
        let mut node = Node::parse("m.toml", "a = 1\n[t]\nx = 1\n").unwrap();
        for (path, value) in [("b", "2"), ("t.y", "3"), ("u.v", "4"), ("t.x", "5")] {
            set(&mut node, path, value).unwrap();
        }
        let found = ["a", "b", "t.x", "t.y", "u.v"].map(|path| find(&node, path).unwrap().value.clone());
        assert_eq!(found, [1, 2, 5, 3, 4].map(Value::Integer));
        assert!(set(&mut node, "a.b", "1").unwrap_err().to_string().contains("`b` is not in a table"));
    }

    #[test]
    fn a_number_chooses_from_a_list() {
        let text = "[[disk]]\nn = 2\n[[disk]]\nn = 3\n";
        let changed = |path: &str| {
            let mut node = Node::parse("m.toml", text).unwrap();
            change(&mut node, path, "9").map_err(|error| error.to_string())?;
            let Value::List(disks) = node.get("disk").unwrap().value.clone() else { panic!() };
            Ok(disks.iter().map(|disk| disk.get("n").unwrap().value.clone()).collect::<Vec<_>>())
        };
        let numbers = |numbers: [i64; 2]| Ok(numbers.map(Value::Integer).to_vec());
        assert_eq!([changed("disk.0.n"), changed("disk.1.n")], [numbers([9, 3]), numbers([2, 9])]);
        assert_eq!(changed("disk.2.n"), Err("disk.2.n=9: `2`: the list has 2, counted from 0".to_owned()));
    }

    #[test]
    fn a_name_chooses_from_a_list() {
        let mut node =
            Node::parse("m.toml", "[[group]]\nname = \"a\"\nn = 2\n[[group]]\nname = \"b\"\nn = 3\n").unwrap();
        change(&mut node, "group.b.n", "9").unwrap();
        let n = |path| find(&node, path).map(|node| node.value.clone());
        assert_eq!(["group.a.n", "group.b.n", "group.n"].map(n), [2, 9, 2].map(|n| Some(Value::Integer(n))));
        assert_eq!((n("group.c.n"), n("group.2.n")), (None, None));
    }

    #[test]
    fn a_key_that_is_not_there_is_added_where_that_is_for_its_reader_to_judge() {
        let mut node = Node::parse("e.toml", TEXT).unwrap();
        set(&mut node, "b", "zipf").unwrap();
        set(&mut node, "a", "2").unwrap();
        assert_eq!(
            (node.get("b").unwrap().as_text(), &node.get("a").unwrap().value),
            (Some("zipf"), &Value::Integer(2))
        );
        set(&mut node, "cpu.cont", "4").unwrap();
        assert_eq!(find(&node, "cpu.cont").unwrap().value, Value::Integer(4));
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        assert_eq!(changed("cpu.cont", "4").unwrap_err(), "cpu.cont=4: unknown key `cont`: did you mean `count`?");
        assert_eq!(changed("a.b", "4").unwrap_err(), "a.b=4: `b` is not in a table");
    }
}
