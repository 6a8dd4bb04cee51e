//! Doubly linked lists of objects: many lists over one table of nodes of 12 bytes.
//!
//! A node is a place for one object. Lists and policies name nodes by 32-bit numbers. Freed nodes are used again, last
//! freed first, so the table never holds more nodes than the policy held objects at once.

use machine::prefetch;

/// The number that stands for no node, and for no object.
pub const NONE: u32 = u32::MAX;

/// A node of a list, or a free node.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The next node towards the head of the list.
    newer: u32,
    /// The neighbour towards the tail; if the node is free, the next free node.
    older: u32,
    /// The object, or any other number that the policy stores here.
    value: u32,
}

/// A table of nodes, shared by the lists of one policy.
#[derive(Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
    free: u32,
}

/// The two ends of one list, and its number of nodes. The nodes themselves are in a table ([`Nodes`]), which the caller
/// passes to each operation.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Nodes {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }
}

impl Nodes {
    /// Takes a free node, or makes one, stores `value` in it, and returns the node's number. The node is on no list.
    #[inline]
    pub fn take(&mut self, value: u32) -> u32 {
        let node = Node { newer: NONE, older: NONE, value };
        if self.free == NONE {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let number = self.free;
        self.free = self.nodes[number as usize].older;
        self.nodes[number as usize] = node;
        number
    }

    /// Adds a node, which is on no list, to the free nodes.
    #[inline]
    pub fn give_back(&mut self, node: u32) {
        self.nodes[node as usize].older = self.free;
        self.free = node;
    }

    /// Returns the value of a node.
    #[inline]
    pub fn value(&self, node: u32) -> u32 {
        self.nodes[node as usize].value
    }

    /// Changes the value of a node.
    #[inline]
    pub fn set_value(&mut self, node: u32, value: u32) {
        self.nodes[node as usize].value = value;
    }

    /// Returns the next node towards the head of the list that `node` is on; [`NONE`] if `node` is the head.
    #[inline]
    pub fn newer(&self, node: u32) -> u32 {
        self.nodes[node as usize].newer
    }

    /// Asks the processor to load a node. `node` need not be the number of an existing node.
    #[inline]
    pub fn look_at(&self, node: u32) {
        prefetch(self.nodes.as_ptr().wrapping_add(node as usize));
    }

    /// Returns the bytes of memory that the table occupies.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node>()) as u64
    }

    /// Allocates memory for exactly `more` nodes in addition to the nodes in use.
    pub fn reserve(&mut self, more: usize) {
        self.nodes.reserve_exact(more);
    }
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// Returns the number of nodes on the list.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether the list has no node.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the newest node; [`NONE`] if the list is empty.
    #[inline]
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// Returns the oldest node; [`NONE`] if the list is empty.
    #[inline]
    pub const fn tail(&self) -> u32 {
        self.tail
    }

    /// Puts a node at the head.
    #[inline]
    pub fn push(&mut self, nodes: &mut Nodes, node: u32) {
        let head = self.head;
        nodes.nodes[node as usize].newer = NONE;
        nodes.nodes[node as usize].older = head;
        match nodes.nodes.get_mut(head as usize) {
            Some(before) => before.newer = node,
            None => self.tail = node,
        }
        self.head = node;
        self.len += 1;
    }

    /// Puts a node at the tail.
    #[inline]
    pub fn push_oldest(&mut self, nodes: &mut Nodes, node: u32) {
        let tail = self.tail;
        nodes.nodes[node as usize].newer = tail;
        nodes.nodes[node as usize].older = NONE;
        match nodes.nodes.get_mut(tail as usize) {
            Some(before) => before.older = node,
            None => self.head = node,
        }
        self.tail = node;
        self.len += 1;
    }

    /// Takes a node off the list.
    #[inline]
    pub fn remove(&mut self, nodes: &mut Nodes, node: u32) {
        let Node { newer, older, .. } = nodes.nodes[node as usize];
        match nodes.nodes.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.head = older,
        }
        match nodes.nodes.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.tail = newer,
        }
        self.len -= 1;
    }

    /// Moves a node of the list to its head.
    #[inline]
    pub fn touch(&mut self, nodes: &mut Nodes, node: u32) {
        if self.head != node {
            self.remove(nodes, node);
            self.push(nodes, node);
        }
    }
}
