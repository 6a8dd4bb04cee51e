//! The profile of a run: the CPU time and sleep time of each call path.
//!
//! Call paths form a tree with one root for each task name. A node has an array with a place for each function, so
//! entering a function is one load. Time is charged when the path changes, not at each step.

use machine::Func;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The number of a call path: the index, among the nodes of [`Profile`], of the node for the path's innermost call.
pub(crate) type NodeId = u32;

const NO_NODE: NodeId = NodeId::MAX;
const FUNCS: usize = Func::ALL.len();

struct Node {
    on_cpu: u64,
    off_cpu: u64,
    parent: NodeId,
    /// Index of the node's function in [`Func::ALL`]. For a root, the index of the root's name in [`Tree::root_names`].
    label: u32,
    children: [NodeId; FUNCS],
}

#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    root_names: Vec<Rc<str>>,
    roots: BTreeMap<Rc<str>, NodeId>,
}

/// The first field is the tree of call paths. The second field has, for each call path and class of locks, the time
/// that was spent there spinning for locks of this class.
#[derive(Default)]
pub(crate) struct Profile(RefCell<Tree>, RefCell<BTreeMap<(NodeId, u8), u64>>);

impl Profile {
    /// Returns the root node for all tasks with this name.
    pub(crate) fn root(&self, name: &str) -> NodeId {
        let mut tree = self.0.borrow_mut();
        if let Some(&root) = tree.roots.get(name) {
            return root;
        }
        let name: Rc<str> = name.into();
        tree.root_names.push(Rc::clone(&name));
        let label = tree.root_names.len() as u32 - 1;
        let root = tree.push(NO_NODE, label);
        tree.roots.insert(name, root);
        root
    }

    /// Returns the call path that continues the path `node` with a call of `func`.
    #[inline]
    pub(crate) fn child(&self, node: NodeId, func: Func) -> NodeId {
        let mut tree = self.0.borrow_mut();
        let child = tree.nodes[node as usize].children[func as usize];
        if child != NO_NODE {
            return child;
        }
        let child = tree.push(node, func as u32);
        tree.nodes[node as usize].children[func as usize] = child;
        child
    }

    #[inline]
    pub(crate) fn charge(&self, node: NodeId, time: u64) {
        self.0.borrow_mut().nodes[node as usize].on_cpu += time;
    }

    pub(crate) fn charge_sleep(&self, node: NodeId, time: u64) {
        self.0.borrow_mut().nodes[node as usize].off_cpu += time;
    }

    /// Adds `time`, which a task or handler spent spinning for a lock of class `class`, to the call path `node`.
    pub(crate) fn charge_wait(&self, node: NodeId, class: u8, time: u64) {
        *self.1.borrow_mut().entry((node, class)).or_default() += time;
    }

    /// Returns the time spent spinning for locks, ps, by call path (as text) and lock class.
    pub(crate) fn waits(&self) -> Vec<(String, u8, u64)> {
        let tree = self.0.borrow();
        self.1.borrow().iter().map(|((node, class), time)| (tree.path(*node), *class, *time)).collect()
    }

    /// Returns a call path as text: `kswapd0;kswapd;balance_pgdat`.
    pub(crate) fn path(&self, node: NodeId) -> String {
        self.0.borrow().path(node)
    }

    /// Returns a line `path ns` for each call path whose time is not 0, sorted. `time` computes the time of a call path
    /// from the path's time on the CPU and the path's time asleep.
    pub(crate) fn folded(&self, time: fn(on_cpu: u64, off_cpu: u64) -> u64) -> Vec<String> {
        let tree = self.0.borrow();
        let mut lines: Vec<String> = Vec::new();
        for (index, node) in tree.nodes.iter().enumerate() {
            let ns = time(node.on_cpu, node.off_cpu) / crate::clock::PICOS;
            if ns > 0 {
                lines.push(format!("{} {ns}", tree.path(index as NodeId)));
            }
        }
        lines.sort_unstable();
        lines
    }
}

impl Tree {
    fn push(&mut self, parent: NodeId, label: u32) -> NodeId {
        self.nodes.push(Node { on_cpu: 0, off_cpu: 0, parent, label, children: [NO_NODE; FUNCS] });
        self.nodes.len() as NodeId - 1
    }

    fn path(&self, mut node: NodeId) -> String {
        let mut words: Vec<&str> = Vec::new();
        while node != NO_NODE {
            let Node { parent, label, .. } = self.nodes[node as usize];
            words.push(match parent {
                NO_NODE => &self.root_names[label as usize],
                _ => Func::ALL[label as usize].name(),
            });
            node = parent;
        }
        words.reverse();
        words.join(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fold_into_sorted_lines() {
        let profile = Profile::default();
        let b = profile.root("b");
        let a = profile.root("a");
        assert_eq!(profile.root("b"), b);
        let child = profile.child(b, Func::Kswapd);
        assert_eq!(profile.child(b, Func::Kswapd), child);
        profile.charge(child, 5000);
        profile.charge(a, 7000);
        profile.charge_sleep(b, 1000);
        assert_eq!(profile.folded(|on, _| on), ["a 7", "b;kswapd 5"]);
        assert_eq!(profile.folded(|_, off| off), ["b 1"]);
    }
}
