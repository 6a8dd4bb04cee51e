//! The path of a request to a block device: into the device's queue, through the events of the disk, and to the
//! interrupt handler that reports the request's completion.

use crate::clock::{nanos, picos};
use crate::device::Device;
use crate::device::network::Turn;
use crate::disk::{Fault, Finished};
use crate::event::EventKind;
use crate::fiber::Ask;
use crate::record::fingerprint::Mark;
use crate::record::trace::Way;
use crate::task::{State, Task};
use crate::wait_queue::Sleeper;
use crate::world::World;
use machine::{Func, Operation, Request, Step, WaitReason};

const OPERATIONS: [Operation; 2] = [Operation::Read, Operation::Write];

impl World {
    pub(crate) fn submit(&self, request: Request) {
        let task = self.sleeping_task("submit");
        self.within(Func::SubmitBio, || {
            self.spend(Step::SubmitRequest, 1);
            let index = request.device.index();
            assert!(index < self.devices.len(), "there is no device {index}");
            let Some(request) = self.hold_back(&task, request) else { return };
            self.let_go(&task);
            if let Some(request) = self.hold_back(&task, request) {
                self.queue(request);
            }
        });
    }

    /// Runs `work` with a plug, in which the task's requests are held back. Then sends the held requests to their
    /// devices. If the task has a plug already, only runs `work`.
    pub(crate) fn plugged<T>(&self, work: impl FnOnce() -> T) -> T {
        let task = self.sleeping_task("plug");
        if task.plug.borrow().is_open {
            return work();
        }
        task.plug.borrow_mut().is_open = true;
        let done = work();
        task.plug.borrow_mut().is_open = false;
        self.within(Func::SubmitBio, || self.let_go(&task));
        done
    }

    /// Holds a request back in the task's plug. Returns the request if the task has no plug, or if all held requests
    /// must be sent to their devices first.
    fn hold_back(&self, task: &Task, request: Request) -> Option<Request> {
        let mut plug = task.plug.borrow_mut();
        if !plug.is_open {
            return Some(request);
        }
        let blocks_max = self.devices[request.device.index()].disk.borrow().max_request_pages();
        plug.hold(request, blocks_max)
    }

    /// Puts the requests that the task has held back into their devices' queues. May wait for places in these queues.
    pub(crate) fn let_go(&self, task: &Task) {
        loop {
            let first = task.plug.borrow_mut().take_first();
            let Some(requests) = first else { return };
            requests.into_iter().for_each(|request| self.queue(request));
        }
    }

    /// Puts a request into its device's queue. If the queue has no free place for the request, first waits for one.
    fn queue(&self, request: Request) {
        let index = request.device.index();
        let device = &self.devices[index];
        if !device.takes_at_once(&request) {
            // A task that is about to wait for something else first sends its held requests, and has then already told
            // its reason. That reason stays.
            let is_told = self.sleeping_task("submit").waits.get().is_some();
            if !is_told {
                self.note_wait(Some(WaitReason::DeviceQueue));
            }
            self.wait_for_room(device, &request);
            if !is_told {
                self.note_wait(None);
            }
        }
        device.stamps.borrow_mut().submit(&self.stamps, &request);
        self.fingerprint.mix(
            Mark::Submit,
            self.clock.get(),
            request.block << 16 | (request.frames.len() as u64) << 1 | request.operation as u64,
        );
        self.note_submitted(&request);
        let now = nanos(self.clock.get());
        let operation = request.operation;
        device.disk.borrow_mut().submit(now, request);
        self.arm_device(index);
        self.wake_first_waiter(device, operation);
        self.note_congestion(device);
    }

    /// Waits for a place in a device's queue. A kill does not end the wait, because the request must reach its device.
    fn wait_for_room(&self, device: &Device, request: &Request) {
        let task = self.sleeping_task("submit");
        let waiters = &device.waiters[request.operation as usize];
        waiters.borrow_mut().push_back(Sleeper { task: task.id, sleep: 0 });
        loop {
            let sleep = self.begin_sleep(&task, State::Uninterruptible, u64::MAX);
            let mine = Sleeper { task: task.id, sleep };
            waiters.borrow_mut().iter_mut().filter(|waiter| waiter.task == task.id).for_each(|waiter| *waiter = mine);
            self.suspend(Ask::Sleep);
            // Only the first waiter is woken. Before it runs, another task may have taken the free place; then it waits
            // again.
            if device.disk.borrow().can_take(request) {
                let first = waiters.borrow_mut().pop_front();
                assert!(first == Some(mine), "submitters are served in the order in which they came");
                return;
            }
        }
    }

    fn wake_first_waiter(&self, device: &Device, operation: Operation) {
        if device.disk.borrow().has_room(operation) {
            let first = device.waiters[operation as usize].borrow().front().copied();
            if let Some(first) = first {
                self.end_sleep(first);
            }
        }
    }

    /// Wakes the tasks that wait for the end of congestion, if congestion of this device has just ended in either
    /// direction.
    fn note_congestion(&self, device: &Device) {
        let mut has_ended = false;
        for operation in OPERATIONS {
            let is_congested = device.disk.borrow().is_congested(operation);
            has_ended |= device.was_congested[operation as usize].replace(is_congested) && !is_congested;
        }
        if has_ended {
            self.wake(&self.uncongested);
        }
    }

    /// Schedules the device's next event.
    fn arm_device(&self, index: usize) {
        let device = &self.devices[index];
        let next = device.disk.borrow().next_event();
        let Some(next) = next else { return device.armed.set(u64::MAX) };
        // The disk counts whole nanoseconds. So an event that is due at once may seem to be a fraction of a nanosecond
        // in the past. It is moved to the present time.
        let time = picos(next).max(self.clock.get());
        if device.armed.replace(time) != time {
            self.push_event(time, EventKind::Device(index as u8));
        }
    }

    /// Lets a device do the work that is due. Returns the CPU to interrupt; `None` if no request is finished, or if the
    /// device has raised its interrupt already.
    pub(crate) fn device_event(&self, index: usize) -> Option<usize> {
        let device = &self.devices[index];
        device.armed.set(u64::MAX);
        let mut finished = device.finished.borrow_mut();
        let before = finished.len();
        device.disk.borrow_mut().advance(nanos(self.clock.get()), &mut finished);
        let is_any = !finished.is_empty();
        finished[before..].iter().for_each(|finished| self.note_done(&finished.request));
        drop(finished);
        self.note_congestion(device);
        for operation in OPERATIONS {
            self.wake_first_waiter(device, operation);
        }
        self.arm_device(index);
        (is_any && !device.is_raised.replace(true)).then_some(device.cpu)
    }

    /// Hands a device's finished requests to the engine (the receiver of completions), one by one. Called in the
    /// device's interrupt handler.
    pub(crate) fn complete_finished(&self, index: usize) {
        let device = &self.devices[index];
        device.is_raised.set(false);
        let finished = device.finished.take();
        let cpu = &self.cpus[device.cpu];
        for Finished { request, result, is_last, ends } in finished {
            cpu.handled_pages.set(cpu.handled_pages.get() + request.frames.len() as u64);
            let (way, has_failed) = (Way::of(&request), result.is_err());
            device.stamps.borrow_mut().complete(&self.stamps, &request, result.is_ok());
            let completions = self.completions.borrow().clone();
            completions.expect("a machine with requests has completions attached").complete(request, result);
            self.note_ended(way, has_failed, is_last);
            if let Some(operation) = ends {
                self.end_command(index, operation);
            }
        }
    }

    /// Ends a command of the disk with number `index`, and lets the disk take the next request. Called in the interrupt
    /// handler of a disk with `command_depth`, whose commands end there.
    fn end_command(&self, index: usize, operation: Operation) {
        let device = &self.devices[index];
        device.disk.borrow_mut().end(nanos(self.clock.get()), operation);
        self.arm_device(index);
        self.note_congestion(device);
        self.wake_first_waiter(device, operation);
        if let Some(network) = &self.network
            && network.config.turn == Turn::AfterRequest
            && network.config.cpu == device.cpu
            && network.has_waiting()
        {
            self.answer_packets();
        }
    }

    pub(crate) fn inject(&self, index: usize, fault: Fault) {
        self.devices[index].disk.borrow_mut().inject(fault);
    }
}
