//! The memory control groups of one memory, and the group to which a call charges pages.
//!
//! A removed group's files and regions belong to its parent from then on. Its pages stay charged to its number until
//! they are freed. A new group then gets the number. Before that, no call may still charge pages to the removed group:
//! a call holds the *entrance* of its group's number, and removal waits until no call holds it.
//!
//! *Locks*: the table's mutex is taken before the engine's lock of the tree of groups. No thread waits for an entrance
//! while it holds the mutex.

use super::error::GroupError;
use crate::error::Error;
use crate::machine::Host;
use crossbeam_utils::CachePadded;
use engine::memory::GroupId;
use engine::memory::group::GroupError as Refused;
use engine::{Engine, Task};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A memory control group. The group's handles, files and regions share this value.
#[derive(Debug)]
pub(crate) struct Node {
    /// The serial number of the group in the process. No other group ever gets this number.
    pub(super) serial: u64,
    pub(super) id: GroupId,
    /// The path of the group: the names of its ancestors below the root group and its own name, with slashes between
    /// them.
    pub(super) path: String,
    /// The parent of the group; `None` for a group below the root group.
    parent: Option<Arc<Node>>,
    is_removed: AtomicBool,
}

impl Node {
    /// Returns the serial number of the group in the process. No other group ever gets this number.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    pub(crate) fn refuse(&self, kind: GroupError) -> Error {
        Error::Group { name: self.path.clone(), kind }
    }
}

/// The lock of one group number. A call holds it shared while it may charge pages to the group with this number.
/// Removal takes it exclusively, to wait until such calls have ended.
type Entrance = CachePadded<RwLock<()>>;

/// The memory control groups of one [`Memory`](crate::Memory).
pub(crate) struct Groups {
    /// The groups that exist, and those that are being removed.
    nodes: Mutex<Vec<Arc<Node>>>,
    /// One lock for each group number, at the index of the number ([`GroupId`]).
    entrances: Box<[Entrance]>,
    /// For each number ([`GroupId`]), the serial number of the latest group that got it; 0 if no group ever got it.
    last: Box<[AtomicU64]>,
}

/// The serial number of the next group. Groups are numbered from 1 in the whole process.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

impl Groups {
    /// Creates the table of control groups for a memory. The memory can have `count` groups, the root group included.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            nodes: Mutex::default(),
            entrances: (0..count).map(|_| Entrance::default()).collect(),
            last: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns the group called `name` below `parent`, and creates it if there is none. If `parent` is `None`, the
    /// group lies below the root group.
    pub(super) fn get_or_create(
        &self,
        engine: &Engine<Host>,
        parent: Option<&Arc<Node>>,
        name: &str,
    ) -> Result<Arc<Node>, Error> {
        let path = parent.map_or_else(|| name.to_owned(), |parent| format!("{}/{name}", parent.path));
        let refused = |kind| Error::Group { name: path.clone(), kind };
        if name.is_empty() || name.contains('/') {
            return Err(refused(GroupError::Name));
        }
        let mut nodes = self.nodes.lock();
        if let Some(parent) = parent.filter(|parent| parent.is_removed()) {
            return Err(parent.refuse(GroupError::Removed));
        }
        if let Some(node) = nodes.iter().find(|node| node.path == path) {
            return if node.is_removed() { Err(refused(GroupError::Removed)) } else { Ok(node.clone()) };
        }
        let above = parent.map_or(GroupId::ROOT, |parent| parent.id);
        let id = engine.lru().create_group(above).map_err(|error| refused(error.into()))?;
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        let node = Arc::new(Node { serial, id, path, parent: parent.cloned(), is_removed: AtomicBool::new(false) });
        self.last[usize::from(id.0)].store(serial, Ordering::Release);
        nodes.push(node.clone());
        Ok(node)
    }

    /// Removes a group. First marks it as removed, and waits until all calls that use the group have returned. Returns
    /// an error if the group has children or was removed before.
    pub(super) fn remove(&self, engine: &Engine<Host>, node: &Node) -> Result<(), Error> {
        {
            let nodes = self.nodes.lock();
            if node.is_removed() {
                return Err(node.refuse(GroupError::Removed));
            }
            let is_child = |other: &Arc<Node>| other.parent.as_ref().is_some_and(|parent| parent.serial == node.serial);
            if nodes.iter().any(is_child) {
                return Err(node.refuse(GroupError::HasChildren));
            }
            node.is_removed.store(true, Ordering::Release);
        }
        let _nobody = self.entrances[usize::from(node.id.0)].write();
        let removed = engine.lru().remove_group(node.id);
        self.nodes.lock().retain(|other| other.serial != node.serial);
        removed.map_err(|error| node.refuse(error.into()))
    }

    /// Returns the group whose serial number is `serial`; `None` if there is no such group, or it was removed.
    pub(super) fn find(&self, serial: u64) -> Option<Arc<Node>> {
        self.nodes.lock().iter().find(|node| node.serial == serial && !node.is_removed()).cloned()
    }

    /// Returns the path of the group with the number `id`, for error messages. If the group was removed, returns words
    /// that say so.
    pub(crate) fn path_of(&self, id: GroupId) -> String {
        let nodes = self.nodes.lock();
        let found = nodes.iter().find(|node| node.id == id);
        found.map_or_else(|| format!("number {}, which was removed", id.0), |node| node.path.clone())
    }

    /// Returns whether the group of `node` still owns its number: no later group has got the number.
    pub(super) fn has_number(&self, node: &Node) -> bool {
        self.last[usize::from(node.id.0)].load(Ordering::Acquire) == node.serial
    }

    /// Takes the lock that keeps the group of `node` from being removed. A caller holds the lock while it uses the
    /// group. Returns `None` if the group was already removed.
    pub(super) fn enter(&self, node: &Node) -> Option<RwLockReadGuard<'_, ()>> {
        // A removed group is recognised before its entrance is asked for. A thread that removes the group waits for
        // calls, and such a call may wait for a page that this thread has pinned; so this thread must not queue behind
        // the removal, which a recursive read does not do.
        if node.is_removed() {
            return None;
        }
        let entered = self.entrances[usize::from(node.id.0)].read_recursive();
        (!node.is_removed()).then_some(entered)
    }

    /// Calls `call` with the calling task in the group of `node`, or in the nearest ancestor that was not removed. If
    /// `node` is `None`, the task is in the root group.
    ///
    /// The task may first have to make up for its last call. If that call charged pages above a `high` limit, the task
    /// has to reclaim and to sleep for them. A call that pinned a page leaves this undone, because the task must not
    /// sleep while it holds the page.
    pub(crate) fn call_in<R>(
        &self,
        engine: &Engine<Host>,
        mut node: Option<&Arc<Node>>,
        task: &mut Task,
        call: impl FnOnce(&Engine<Host>, &mut Task) -> R,
    ) -> R {
        if task.over_high_pages > 0 {
            self.settle(engine, task);
        }
        let _entered = loop {
            let Some(at) = node else { break None };
            if let Some(entered) = self.enter(at) {
                break Some(entered);
            }
            node = at.parent.as_ref();
        };
        engine.memory().enter_group(task, node.map_or(GroupId::ROOT, |node| node.id));
        call(engine, task)
    }

    /// Makes the task reclaim and sleep for the pages that its last call charged above a `high` limit, if that call did
    /// not do so itself. If the group was removed since that call, the task neither reclaims nor sleeps.
    #[cold]
    fn settle(&self, engine: &Engine<Host>, task: &mut Task) {
        let group = task.group;
        let _entered = self.entrances[usize::from(group.0)].read_recursive();
        if engine.memory().groups.as_ref().is_some_and(|groups| groups.is_live(group)) {
            engine.memory().enter_group(task, group);
            engine.allocate().settle(task);
        }
        task.over_high_pages = 0;
    }
}

impl From<Refused> for GroupError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoRoom { room } => Self::NoRoom { room },
            Refused::Unknown(_) => Self::Removed,
            Refused::HasChildren(_) => Self::HasChildren,
            Refused::IsRoot => unreachable!("the library has no handle of the root group"),
        }
    }
}
