//! The machine: threads, memory and files of this process under the engine.
//!
//! [`Host`] implements [`machine::Machine`]. [`arena`] is the machine's memory. `lock`, `per_cpu` and `wait` are
//! objects that threads wait for; `wakers` wakes futures; `hazard` lets threads read without waiting. [`task`] starts
//! and ends the engine's tasks. [`disk`] carries out requests. [`swap_file`] makes the file for anonymous pages. A
//! [`Notice`] is something that the system did not grant.
//!
//! A user makes a [`Host`], adds devices, makes an engine from a clone of the host, attaches the engine, and spawns its
//! tasks. At the end the user kills and joins the tasks, and drops the engine. Clones of a host are the same machine.
//!
//! Unsafe code stands in `arena`, `copy`, `hazard`, `sys` and `disk/ring` only. This module is public for this crate's
//! own tests and benches. Its methods are sound when the engine calls them, because the engine knows which task may
//! touch each frame; for other callers, making a [`Host`] or an [`Arena`] is unsafe.
//!
//! Next: [`config`].

pub mod arena;
pub mod config;
mod copy;
pub mod disk;
mod hazard;
mod in_use;
mod kind;
mod lock;
mod notice;
mod per_cpu;
mod pressure;
pub mod swap_file;
mod sys;
pub mod task;
mod wait;
mod wakers;

use arena::FirstFrame;
pub use arena::{Arena, Backing, collapse_to_huge_pages, use_huge_pages};
pub use config::{Config, Io};
pub use copy::copy;
pub use disk::{Cause, Checks, Device, Durable, Plug, Receiver, RequestError};
pub use in_use::InUse;
pub(crate) use in_use::{Identity, Use};
pub(crate) use kind::{check_has_bytes, check_is_regular};
pub use lock::{AdaptiveGuard, AdaptiveLock};
pub use notice::Notice;
pub use per_cpu::{ShardGuard, Shards};
pub use swap_file::{SwapFile, SwapFileError};
pub use task::{Panic, TaskId};
pub use wait::WaitQueue;

use disk::Disks;
use disk::backend::Backend;
pub use hazard::{HazardPointer, Hazards};
use machine::{
    DeviceId, FrameNumber, Func, LockClass, Machine, Nanos, Observe, Operation, PAGE_BYTES, Request, Step, Ticket,
    WaitReason,
};
use notice::Notices;
use pressure::{Call, ThreadPressure};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;
pub(crate) use sys::{open_at_once, status_flags, try_lock_file, try_share_file};
use task::Tasks;
pub(crate) use task::start_thread;
use wakers::Wakers;
pub(crate) use wakers::call as call_waker;

/// The machine under the engine, made of threads, memory and files of this process. A clone is a handle of the same
/// machine.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    // `hazards` and `first_frame` are not behind `shared`, because a hit of the cache needs little else.
    hazards: Hazards,
    first_frame: FirstFrame,
}

struct Shared {
    began: Instant,
    shards: usize,
    notices: Arc<Notices>,
    tasks: Tasks,
    disks: Disks,
    arena: Arc<Arena>,
    pressure: ThreadPressure,
    wakers: Wakers,
}

impl Host {
    /// Makes a machine without devices and tasks.
    ///
    /// # Errors
    /// When the system does not grant the memory.
    ///
    /// # Panics
    /// When `config` has no frames, more frames than `frames_max`, no `shards`, or a `queue_depth` of 0.
    ///
    /// # Safety
    /// The machine's methods touch the bytes of frames without a latch. The owner of the machine, or of a clone, must
    /// ensure that no thread touches the bytes of a frame while another thread, or a disk request, changes them.
    ///
    /// ```compile_fail,E0133
    /// use highwater::machine::{Config, Host};
    /// let host = Host::new(&Config::new(1024));
    /// ```
    #[allow(unsafe_code)]
    pub unsafe fn new(config: &Config) -> io::Result<Self> {
        assert!(config.shards > 0, "a machine has a CPU at least");
        assert!(config.queue_depth > 0, "a queue has a place at least");
        let notices = Arc::new(Notices::default());
        let backing = Backing { is_locked: config.lock_memory, huge_pages: config.huge_pages };
        // SAFETY: the caller ensures that no thread touches bytes of a frame while another one changes them, which is
        // what `Arena::new` requires.
        let arena = Arc::new(unsafe { Arena::new(config.frames, config.frames_max, backing) }?);
        if config.huge_pages && !arena.has_huge_pages() {
            notices.add(Notice::NoHugePages);
        }
        let disks = Disks::new(config, Arc::clone(&arena), Arc::clone(&notices));
        let (tasks, first_frame) = (Tasks::default(), arena.first_frame());
        let hazards = Hazards::new(config.hazard_pointers);
        if config.hazard_pointers && !machine::Hazards::are_on(&hazards) {
            notices.add(Notice::NoHazardPointers);
        }
        let began = Instant::now();
        let pressure = ThreadPressure::new(began);
        let wakers = Wakers::default();
        let shared = Shared { began, shards: config.shards, notices, tasks, disks, arena, pressure, wakers };
        Ok(Self { shared: Arc::new(shared), hazards, first_frame })
    }

    /// Sets the receivers of finished requests; called once, before any request is submitted. A finished request goes
    /// to the receiver of the CPU that finishes it. Each receiver is a handle of the same engine. There are
    /// several receivers, so that CPUs do not contend for one reference count.
    ///
    /// # Panics
    /// When `receivers` is empty, or receivers are already set.
    pub fn attach(&self, receivers: impl IntoIterator<Item = Receiver>) {
        self.shared.disks.attach(receivers.into_iter().collect());
    }

    /// Returns a notice for each feature that the system has refused so far, without duplicates.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.shared.notices.all()
    }

    /// Adds `notice` to the notices that [`Self::notices`] returns. The library, the layer above the machine, adds its
    /// own notices by this method.
    pub(crate) fn note(&self, notice: Notice) {
        self.shared.notices.add(notice);
    }

    /// Notes that the calling thread begins a call of the library. The call ends when the result is dropped. A thread
    /// has one call at a time.
    #[inline]
    pub(crate) fn enter_call(&self) -> Call<'_> {
        self.shared.pressure.enter_call()
    }

    /// Returns for how long threads were stalled because memory was short, up to now.
    #[must_use]
    pub fn pressure(&self) -> machine::pressure::Pressure {
        self.shared.pressure.read()
    }

    /// Returns the pressure of a memory control group: the times, up to now, for which its threads were stalled because
    /// memory was short. All times are 0 if no group with this number was ever created.
    pub(crate) fn pressure_of_group(&self, group: u16) -> machine::pressure::Pressure {
        self.shared.pressure.read_group(group).unwrap_or_default()
    }

    /// Returns the memory of the machine.
    #[inline]
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.shared.arena
    }

    /// Returns the address of a frame's bytes, valid as long as the machine lives. The caller must hold the page in the
    /// frame; this is not checked.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self, frame: FrameNumber) -> *mut [u8; PAGE_BYTES] {
        self.first_frame.bytes(frame)
    }

    // ---- devices ----

    /// Adds an open file or a block device under a name that errors show. The device gets the lowest free number, which
    /// is returned.
    ///
    /// Requests bypass the page cache of the kernel (O_DIRECT) if the file system can do that; otherwise there is a
    /// [`Notice`]. Reads do not change the file's time of last access (O_NOATIME) if this user owns the file. Both
    /// flags also apply to handles that were cloned from `file`.
    ///
    /// # Errors
    /// When all numbers are in use, or when the device needs threads because io_uring cannot be used, and the system
    /// grants none.
    pub fn add_device(&self, file: File, name: impl Into<Arc<str>>) -> io::Result<DeviceId> {
        self.add_device_behind(file, name, Checks::AsConfigured, |backend| backend)
    }

    /// Adds a device as [`Host::add_device`] does, but the caller chooses how its data are checked, and `wrap` may put
    /// a layer around its backend.
    ///
    /// # Errors
    /// As [`Host::add_device`]; also when the system has no random numbers for an encryption key.
    #[doc(hidden)]
    pub fn add_device_behind(
        &self,
        file: File,
        name: impl Into<Arc<str>>,
        checks: Checks,
        wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend>,
    ) -> io::Result<DeviceId> {
        self.shared.disks.add(file, name.into(), checks, wrap)
    }

    /// Removes a device, waits until none of its requests is in flight, and returns the device; `None` if there is no
    /// such device. The device's number is then free. The file is closed when the last reference to the device is
    /// dropped.
    ///
    /// No other thread may submit requests to the device any more. The request of such a thread might fail because the
    /// device is gone; or the thread might be in the middle of a small read that it carries out itself, for which this
    /// call does not wait.
    pub fn remove_device(&self, id: DeviceId) -> Option<Arc<Device>> {
        self.shared.disks.unplug_before_sleep();
        self.shared.disks.remove(id)
    }

    /// Returns the device with the number `id`; `None` if there is none.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<Arc<Device>> {
        self.shared.disks.device(id)
    }

    /// Returns a plug, a guard that holds back disk requests of the calling thread until it is dropped, so that they go
    /// to the disk together. Linux: `blk_start_plug`.
    ///
    /// When the plug is dropped, the held requests that a task waits for are carried out in parallel. With io_uring,
    /// the drop normally returns when they are finished; with threads, some of them may still be under way. Requests go
    /// to the disk earlier when 64 are held, and before the thread sleeps in the machine. Plugs nest; only dropping the
    /// outermost one releases requests. A thread with a plug must wait for its requests only by the machine's own
    /// means, which release them first.
    #[doc(alias = "blk_start_plug")]
    pub fn plug(&self) -> Plug<'_> {
        self.shared.disks.plug(None)
    }

    /// Returns a plug as [`Host::plug`] does, for a caller that then makes the data of the device `id` durable
    /// ([`Device::sync`]). If a single write is all that is to be made durable, the system writes and syncs in one
    /// call.
    pub fn plug_to_sync(&self, id: DeviceId) -> Plug<'_> {
        self.shared.disks.plug(Some(id))
    }

    /// Waits until no request is in flight on any device. If another thread keeps submitting requests, the wait never
    /// ends.
    pub fn wait_until_idle(&self) {
        self.shared.disks.unplug_before_sleep();
        self.shared.disks.wait_until_idle();
    }

    /// Starts the thread that calls the wakers of futures, unless it runs already. A future calls this before it
    /// registers at a wait queue ([`WaitQueue::register`]).
    ///
    /// # Errors
    /// When the system grants no thread.
    #[inline]
    pub(crate) fn start_wakers(&self) -> io::Result<()> {
        self.shared.wakers.start()
    }

    /// Wakes all that wait at `queue`: threads, and futures for any page.
    pub(crate) fn wake_everybody(&self, queue: &WaitQueue) {
        if queue.count_wake() {
            self.shared.wakers.call(queue.wake_all(None));
        }
    }

    // ---- tasks ----

    /// Starts a task: a thread that [`Host::kill`] can end. If the system grants it, the thread gets short time slices.
    /// The thread then runs sooner after it gets work, and its share of CPU time stays the same.
    ///
    /// # Errors
    /// When the system grants no thread.
    pub fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<TaskId> {
        self.shared.tasks.spawn(name, run)
    }

    /// Tells a task to end. The task returns from its waits at once.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn kill(&self, task: TaskId) {
        self.shared.tasks.kill(task);
    }

    /// Waits until a task has ended. Returns at once if the task was joined before.
    ///
    /// # Errors
    /// The value with which the task panicked.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn join(&self, task: TaskId) -> Result<(), Panic> {
        self.shared.tasks.join(task)
    }

    /// Tells all tasks to end and waits until they have ended.
    ///
    /// # Errors
    /// The panic value of the first task that panicked. All tasks have ended even then.
    pub fn end_tasks(&self) -> Result<(), Panic> {
        let all = || (0..self.shared.tasks.count()).map(TaskId);
        all().for_each(|task| self.kill(task));
        let mut results: Vec<_> = all().map(|task| self.join(task)).collect();
        results.drain(..).collect()
    }
}

/// Receives the engine's reports of stalls and waits. This machine keeps no profile or trace.
impl Observe for Host {
    type Span<'a> = ();

    #[inline]
    fn span(&self, _: Func) {}

    fn note_stall(&self, begins: bool) {
        self.shared.pressure.note_stall(begins);
    }

    fn note_new_group(&self, group: u16, parent: u16) {
        self.shared.pressure.note_new_group(group, parent);
    }

    fn note_group(&self, group: u16) {
        self.shared.pressure.note_group(group);
    }

    fn note_wait(&self, reason: Option<WaitReason>) {
        self.shared.pressure.note_wait(reason.is_some());
    }
}

impl Machine for Host {
    type Lock<T: 'static> = AdaptiveLock<T>;
    type PerCpu<T: 'static> = Shards<T>;
    type WaitQueue = WaitQueue;
    type Hazards = Hazards;

    #[inline]
    fn now(&self) -> Nanos {
        wait::since(self.shared.began)
    }

    fn cpus(&self) -> usize {
        self.shared.shards
    }

    fn counter_rows(&self) -> usize {
        // Twice the number of shards, because more threads than CPUs count at a time: kswapd, flushers, and threads
        // that take turns on one CPU.
        2 * self.shared.shards
    }

    fn page_versions(&self) -> usize {
        // A counter for each 8 pages of memory. Two pages that are in use at the same time then seldom share one.
        (self.shared.arena.frames_max() as usize / 8).clamp(1 << 10, 1 << 20)
    }

    fn lock<T: 'static>(&self, class: LockClass, value: T) -> AdaptiveLock<T> {
        AdaptiveLock::new(class, value)
    }

    fn per_cpu<T: 'static>(&self, make: impl FnMut(usize) -> T) -> Shards<T> {
        Shards::new(self.shared.shards, make)
    }

    fn wait_queue(&self) -> WaitQueue {
        WaitQueue::default()
    }

    #[inline]
    fn ticket(&self, queue: &WaitQueue) -> Ticket {
        queue.ticket()
    }

    fn sleep(&self, queue: &WaitQueue, ticket: Ticket, deadline: Option<Nanos>) -> Nanos {
        lock::assert_none_held("sleep");
        self.shared.disks.unplug_before_sleep();
        queue.sleep(self.shared.began, ticket, deadline)
    }

    #[inline]
    fn wake(&self, queue: &WaitQueue) {
        if queue.count_wake() {
            self.shared.wakers.call(queue.wake_all(None));
        }
    }

    #[inline]
    fn wake_for(&self, queue: &WaitQueue, frame: FrameNumber) {
        if queue.count_wake() {
            self.shared.wakers.call(queue.wake_all(Some(frame.0)));
        }
    }

    #[inline]
    fn wake_first(&self, queue: &WaitQueue) {
        queue.wake_first();
    }

    fn pause(&self, time: Nanos) {
        let queue = WaitQueue::default();
        self.sleep(&queue, queue.ticket(), Some(self.now() + time));
    }

    #[inline]
    fn is_killed(&self) -> bool {
        task::is_killed()
    }

    #[inline]
    fn spend(&self, _: Step, _: u32) {}

    #[inline]
    fn relax(&self) {
        lock::assert_none_held("relax");
        task::relax();
    }

    #[inline]
    fn cond_resched(&self) {
        lock::assert_none_held("cond_resched");
    }

    #[inline]
    fn submit(&self, request: Request) {
        lock::assert_none_held("submit");
        self.shared.disks.submit(request);
    }

    #[inline]
    fn is_congested(&self, device: DeviceId, operation: Operation) -> bool {
        self.shared.disks.is_congested(device, operation)
    }

    fn is_any_congested(&self, operation: Operation) -> bool {
        self.shared.disks.is_any_congested(operation)
    }

    fn uncongested(&self) -> &WaitQueue {
        self.shared.disks.uncongested()
    }

    #[inline(always)]
    fn prefetch_frame(&self, frame: FrameNumber, offset: usize, bytes: usize) {
        self.shared.arena.prefetch(frame, offset, bytes);
    }

    #[inline(always)]
    fn hazards(&self) -> &Hazards {
        &self.hazards
    }

    #[inline]
    fn zero_frame(&self, frame: FrameNumber) {
        self.shared.arena.zero(frame);
    }

    #[inline]
    fn copy_frame(&self, from: FrameNumber, to: FrameNumber) {
        self.shared.arena.copy(from, to);
    }

    #[inline]
    fn write_frame(&self, frame: FrameNumber, offset: usize, bytes: &[u8]) {
        self.shared.arena.write(frame, offset, bytes);
    }

    #[inline]
    fn read_frame(&self, frame: FrameNumber, offset: usize, bytes: &mut [u8]) {
        self.shared.arena.read(frame, offset, bytes);
    }
}
