//! Lists the values of a kernel or machine file as text.

use placed::{Entry, Node, Value};

/// Returns every value under a table: its path of keys, its text, and its node.
#[must_use]
pub fn listed(node: &Node) -> Vec<(String, String, &Node)> {
    let mut lines = Vec::new();
    collect(node, "", &mut lines);
    lines
}

/// Adds an element to `lines` for every value under the table `node`: the path of the value's keys, its text, and its
/// node. A table with the key `from` is a constant, and counts as one value. A table in a list also counts as one
/// value, if it contains no tables and no lists.
fn collect<'n>(node: &'n Node, path: &str, lines: &mut Vec<(String, String, &'n Node)>) {
    let is_flat = |node: &Node| {
        let nested = |entry: &Entry| matches!(entry.node.value, Value::Table(_) | Value::List(_));
        !node.entries().is_empty() && !node.entries().iter().any(nested)
    };
    for Entry { key, node, .. } in node.entries() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match &node.value {
            Value::Table(_) if node.get("from").is_none() => collect(node, &path, lines),
            Value::List(nodes) if nodes.iter().any(|node| matches!(node.value, Value::Table(_))) => {
                for (index, node) in nodes.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    if is_flat(node) {
                        lines.push((path, constant(node), node));
                    } else {
                        collect(node, &path, lines);
                    }
                }
            }
            _ => lines.push((path, constant(node), node)),
        }
    }
}

/// Returns a value as text. For a constant `{ ns = 90, from = "fitted", … }` the text is "`90 ns (fitted: …)`".
#[must_use]
pub fn constant(node: &Node) -> String {
    let Some(origin) = node.get("from").and_then(Node::as_text) else { return node.value.to_string() };
    let quantity = node.entries().iter().find(|entry| !["from", "source", "to"].contains(&entry.key.as_str()));
    let quantity = quantity.map_or_else(String::new, |entry| match entry.key.as_str() {
        "value" => entry.node.value.to_string(),
        unit => format!("{} {unit}", entry.node.value),
    });
    let source = ["source", "to"].iter().find_map(|key| node.get(key)?.as_text());
    format!("{quantity} ({origin}{})", source.map_or_else(String::new, |source| format!(": {source}")))
}
