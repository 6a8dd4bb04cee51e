//! LIRS: objects whose last two uses lie close together stay; the other objects pass through a short queue and are then
//! evicted.
//!
//! S. Jiang, X. Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to improve buffer cache
//! performance", SIGMETRICS 2002. The details are those of libCacheSim 0.3.5. One percent of the capacity is for HIR
//! objects. The objects in the stack take at most twice the capacity. When an object is requested that is in the queue
//! but not in the stack, it keeps its HIR status, and one LIR object is demoted. This last rule is left out here if the
//! queue can hold only a single object, because the rule would then evict the requested object.
//!
//! State: 4 bytes for each distinct object, and 12 for each object in the stack, cached or not; the queue has 16 for
//! each of its few objects. In the stack, the objects that have left the queue lie in the order in which they left it.
//! The lowest of these objects is forgotten first; a cursor points to it.

use crate::list::{List, NONE, Nodes};
use crate::{Cache, Weigh};
use machine::prefetch;

/// The last two uses of the object lie close together. The object is cached, and in the stack. This and the following
/// constants are the kinds of objects, in the two high bits of an object's word, or of a value in a stack node.
const LIR: u32 = 0;
/// The object is in the stack and in the queue. The value of its stack node is its place in the queue.
const HIR: u32 = 1;
/// The object is in the stack, but not cached.
const GONE: u32 = 2;
/// The object is in the queue but not in the stack. The rest of the object's word is its place in the queue. The two
/// high bits of [`NONE`] have this value, too.
const QUEUED: u32 = 3;

const KIND_SHIFT: u32 = 30;
const NUMBER: u32 = (1 << KIND_SHIFT) - 1;

/// A cache with the policy LIRS: a stack of objects in the order of their last uses, and a queue of the cached objects
/// whose last two uses do not lie close together (HIR).
#[derive(Debug)]
pub struct Lirs<W> {
    weigh: W,
    capacity: u64,
    lir_most: u64,
    hir_most: u64,
    lir_held: u64,
    hir_held: u64,
    stack_held: u64,
    /// For each object, a word with the object's kind and a position: its node in the stack, or its place in the queue.
    /// The word is [`NONE`] if the object is in neither.
    index: Vec<u32>,
    /// The nodes of the stack. The value of a node has the kind of the node's object, and a number: the object's place
    /// in the queue if the kind is [`HIR`], otherwise the number of the object.
    nodes: Nodes,
    stack: List,
    /// The nodes of the queue. The value of a node is an object.
    places: Nodes,
    queue: List,
    /// For each place in the queue, the object's node in the stack; [`NONE`] if it has none.
    stack_node: Vec<u32>,
    /// The lowest node of the stack whose object is no longer cached.
    lowest_gone: u32,
}

impl<W: Weigh> Lirs<W> {
    /// Creates an empty cache for objects with numbers below `objects`.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W) -> Self {
        let hir_most = ((0.01 * capacity as f64) as u64).max(1);
        Self {
            weigh,
            capacity,
            lir_most: capacity.saturating_sub(hir_most),
            hir_most,
            lir_held: 0,
            hir_held: 0,
            stack_held: 0,
            index: vec![NONE; objects as usize],
            nodes: Nodes::default(),
            stack: List::default(),
            places: Nodes::default(),
            queue: List::default(),
            stack_node: Vec::new(),
            lowest_gone: NONE,
        }
    }

    fn kind_of_node(&self, node: u32) -> u32 {
        self.nodes.value(node) >> KIND_SHIFT
    }

    fn object_of_node(&self, node: u32) -> u32 {
        let value = self.nodes.value(node);
        if value >> KIND_SHIFT == HIR { self.places.value(value & NUMBER) } else { value & NUMBER }
    }

    /// Adds an object on top of the stack, and returns its new node. The caller then sets the kind of the object in the
    /// node and in the object's word.
    fn push_stack(&mut self, id: u32) -> u32 {
        let node = self.nodes.take(id);
        self.stack.push(&mut self.nodes, node);
        self.stack_held += self.weigh.of(id);
        node
    }

    /// Takes a node off the stack, and frees it. Returns the node's object, but leaves the object's word in `index` as
    /// it is.
    fn drop_node(&mut self, node: u32) -> u32 {
        let id = self.object_of_node(node);
        if node == self.lowest_gone {
            self.lowest_gone = self.next_gone(node);
        }
        self.stack.remove(&mut self.nodes, node);
        self.nodes.give_back(node);
        self.stack_held -= self.weigh.of(id);
        id
    }

    /// Returns the nearest node above `node` in the stack whose object is not cached; [`NONE`] if there is none. The
    /// search ends at a cached HIR object, because no such node lies above it.
    fn next_gone(&self, mut node: u32) -> u32 {
        loop {
            node = self.nodes.newer(node);
            if node == NONE {
                return NONE;
            }
            match self.kind_of_node(node) {
                GONE => return node,
                LIR => {}
                _ => return NONE,
            }
        }
    }

    fn set_lir(&mut self, node: u32, id: u32) {
        self.nodes.set_value(node, LIR << KIND_SHIFT | id);
        self.index[id as usize] = LIR << KIND_SHIFT | node;
        self.lir_held += self.weigh.of(id);
    }

    /// Adds an object to the queue; `node` is its node in the stack, if it has one.
    fn enqueue(&mut self, id: u32, node: u32) {
        let place = self.places.take(id);
        self.queue.push(&mut self.places, place);
        match self.stack_node.get_mut(place as usize) {
            Some(of) => *of = node,
            None => self.stack_node.push(node),
        }
        self.hir_held += self.weigh.of(id);
        if node == NONE {
            self.index[id as usize] = QUEUED << KIND_SHIFT | place;
        } else {
            self.set_hir(node, id, place);
        }
    }

    fn set_hir(&mut self, node: u32, id: u32, place: u32) {
        self.nodes.set_value(node, HIR << KIND_SHIFT | place);
        self.index[id as usize] = HIR << KIND_SHIFT | node;
    }

    fn dequeue(&mut self, place: u32) {
        self.hir_held -= self.weigh.of(self.places.value(place));
        self.queue.remove(&mut self.places, place);
        self.places.give_back(place);
    }

    /// Evicts the oldest object of the queue.
    fn evict_hir(&mut self) {
        let place = self.queue.tail();
        let (id, node) = (self.places.value(place), self.stack_node[place as usize]);
        self.dequeue(place);
        if node == NONE {
            self.index[id as usize] = NONE;
            return;
        }
        self.nodes.set_value(node, GONE << KIND_SHIFT | id);
        self.index[id as usize] = GONE << KIND_SHIFT | node;
        if self.lowest_gone == NONE {
            self.lowest_gone = node;
        }
    }

    /// Removes the lowest LIR object from the stack. Puts it into the queue of HIR objects, or evicts it if it is too
    /// large for the queue.
    fn demote(&mut self) {
        // Does nothing, except where a tiny cache had no LIR object for a while.
        self.prune();
        let id = self.drop_node(self.stack.tail());
        let weight = self.weigh.of(id);
        self.lir_held -= weight;
        if weight <= self.hir_most {
            while self.hir_held + weight > self.hir_most {
                self.evict_hir();
            }
            self.enqueue(id, NONE);
        } else {
            self.index[id as usize] = NONE;
        }
        self.prune();
    }

    /// Removes all objects below the lowest LIR object from the stack.
    fn prune(&mut self) {
        while self.stack.tail() != self.stack.head() {
            let node = self.stack.tail();
            match self.kind_of_node(node) {
                LIR => return,
                HIR => {
                    let place = self.nodes.value(node) & NUMBER;
                    let id = self.drop_node(node);
                    self.stack_node[place as usize] = NONE;
                    self.index[id as usize] = QUEUED << KIND_SHIFT | place;
                }
                _ => {
                    let id = self.drop_node(node);
                    self.index[id as usize] = NONE;
                }
            }
        }
    }

    fn demote_for(&mut self, weight: u64) {
        while self.lir_held + weight > self.lir_most && self.lir_held > 0 {
            self.demote();
        }
    }

    fn use_hir(&mut self, id: u32, node: u32) {
        self.stack.touch(&mut self.nodes, node);
        if self.lir_most == 0 {
            return;
        }
        self.dequeue(self.nodes.value(node) & NUMBER);
        // Its node names no place in the queue any more, in case that pruning meets it.
        self.nodes.set_value(node, LIR << KIND_SHIFT | id);
        self.demote_for(self.weigh.of(id));
        self.set_lir(node, id);
    }

    fn use_queued(&mut self, id: u32, place: u32) {
        self.queue.touch(&mut self.places, place);
        if self.hir_most > 1 {
            self.demote_for(self.weigh.of(id));
        }
        // Demotions may have evicted the object from a queue with little room.
        if self.index[id as usize] == QUEUED << KIND_SHIFT | place {
            let node = self.push_stack(id);
            self.stack_node[place as usize] = node;
            self.set_hir(node, id, place);
        }
    }

    /// Handles a request for an object that is in the stack, but has left the queue.
    fn bring_back(&mut self, id: u32, node: u32) {
        if self.lir_most == 0 {
            self.drop_node(node);
            return self.insert(id);
        }
        if node == self.lowest_gone {
            self.lowest_gone = self.next_gone(node);
        }
        self.stack.touch(&mut self.nodes, node);
        self.nodes.set_value(node, LIR << KIND_SHIFT | id);
        self.demote_for(self.weigh.of(id));
        self.set_lir(node, id);
    }

    fn insert(&mut self, id: u32) {
        let weight = self.weigh.of(id);
        if weight > self.lir_most.max(1) || weight > self.hir_most {
            return;
        }
        if self.lir_held + weight <= self.lir_most {
            // The LIR objects may not use all of their room while the queue has its own.
            while self.lir_held + self.hir_held + weight > self.capacity {
                self.evict_hir();
            }
            let node = self.push_stack(id);
            return self.set_lir(node, id);
        }
        while self.hir_held + weight > self.hir_most {
            self.evict_hir();
        }
        let node = self.push_stack(id);
        self.enqueue(id, node);
    }

    fn limit_stack(&mut self) {
        while self.stack_held > 2 * self.capacity && self.lowest_gone != NONE {
            let id = self.drop_node(self.lowest_gone);
            self.index[id as usize] = NONE;
        }
    }
}

impl<W: Weigh> Cache for Lirs<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let word = self.index[id as usize];
        let number = word & NUMBER;
        let is_hit = match word >> KIND_SHIFT {
            LIR => {
                self.stack.touch(&mut self.nodes, number);
                self.prune();
                return true;
            }
            HIR => {
                self.use_hir(id, number);
                true
            }
            GONE => {
                self.bring_back(id, number);
                false
            }
            _ if word == NONE => {
                self.insert(id);
                false
            }
            _ => {
                self.use_queued(id, number);
                true
            }
        };
        self.limit_stack();
        is_hit
    }

    #[inline]
    fn look_far(&self, id: u32) {
        prefetch(self.index.as_ptr().wrapping_add(id as usize));
    }

    #[inline]
    fn look_near(&self, id: u32) {
        self.nodes.look_at(self.index[id as usize] & NUMBER);
    }

    fn bytes(&self) -> u64 {
        let words = self.index.capacity() + self.stack_node.capacity();
        (words * size_of::<u32>()) as u64 + self.nodes.bytes() + self.places.bytes()
    }
}
