//! OOM killers outside of the kernel: `systemd-oomd`, `earlyoom`, `kubelet`. Each writes its own log lines, with its
//! own reasons.

use super::line::Line;

/// The killer of a process: a program in user space, or the kernel, whose kill a program in user space reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Killer {
    /// `systemd-oomd`, which decides by the PSI of a cgroup, or by the use of memory and swap.
    SystemdOomd,
    /// `earlyoom`, which decides by available memory and free swap.
    Earlyoom,
    /// `kubelet`, which decides by the available memory of its node.
    Kubelet,
    /// The kernel, which killed a process of a container at the container's limit. Kubernetes reports such a kill.
    OfContainer,
    /// The kernel, which killed a process because the whole node was out of memory. Kubernetes reports such a kill.
    OfNode,
    /// The kernel. The killed process belonged to a unit of `systemd`, which reports the kill.
    OfUnit,
}

/// A process, or a group of processes, that was killed or evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The number of the line that reports the victim, from 1.
    pub line: usize,
    /// The killer, or the program that reports the kill.
    pub by: Killer,
    /// The victim in words: a cgroup, a unit, a container, or a process with its number; empty if unknown.
    pub whom: String,
    /// The reason, in the words of the log; none if the log states no reason.
    pub why: Option<String>,
    /// Number of killed processes; none if unknown.
    pub processes: Option<u64>,
    /// The memory limit of the killed container, such as `512Mi`; none if unknown.
    pub limit: Option<String>,
    /// Number of times that the killed container was restarted, for whatever reason; none if unknown.
    pub restarts: Option<u64>,
}

/// Parts of lines by which the logs of user-space killers are recognised.
pub(super) const SIGNS: [&str; 13] = [
    " due to memory pressure for ",
    " due to memory used (",
    ": systemd-oomd killed ",
    "low memory! at or below SIGTERM limits",
    "low memory! at or below SIGKILL limits",
    "The node was low on resource: memory",
    "OOMKilled",
    FOR_MEMORY[0],
    FOR_MEMORY[1],
    " evicted successfully",
    SYSTEM_OOM,
    "Got sys oom event",
    "has been killed by the OOM killer",
];

/// Parts of the lines in which `kubelet` says that it sets out to evict pods for want of memory, in both forms of its log:
/// `attempting to reclaim memory`, and `must evict pod(s) to reclaim" resourceName="memory"`.
const FOR_MEMORY: [&str; 2] = [" to reclaim memory", " to reclaim\" resourceName=\"memory\""];

/// The beginning of the event that `kubelet` makes of a kill on the whole node.
const SYSTEM_OOM: &str = "System OOM encountered";

/// Facts that user-space killers such as `earlyoom` logged in earlier lines. They belong to the victim that a later
/// line reports.
#[derive(Default)]
pub(super) struct Killers {
    /// Available memory and free swap as `earlyoom` last reported them.
    available: Option<String>,
    /// The limits of available memory and free swap as `earlyoom` last reported them.
    limits: Option<String>,
    /// The container about which `kubectl describe` reports.
    container: Option<String>,
    /// True if `kubectl describe` has said of this container that it was killed, so that its limit may follow.
    is_described: bool,
    /// True in the limits of a container, which `kubectl describe` prints before its requests.
    is_in_limits: bool,
    /// True if `kubelet` last set out to reclaim memory, and not another resource.
    is_for_memory: bool,
    /// The process of the last `Got sys oom event`, of which `kubelet` also makes an event.
    of_system: Option<String>,
}

impl Killers {
    /// Reads a line, and adds the victim that it reports, if any, to `evictions`. Returns whether the line reports a
    /// victim or the reason for a kill.
    pub(super) fn take(&mut self, line: Line<'_>, evictions: &mut Vec<Eviction>) -> bool {
        let text = line.text;
        let found = |by, whom: &str, why: Option<&str>| Eviction {
            line: line.number,
            by,
            whom: whom.trim().to_owned(),
            why: why.map(|why| why.trim().trim_end_matches('.').to_owned()).filter(|why| !why.is_empty()),
            processes: None,
            limit: None,
            restarts: None,
        };
        if self.takes_kubelet(text, evictions, &found) || self.describes(text, evictions) {
            return true;
        }
        if let Some((whom, why)) = of_oomd(text) {
            evictions.push(found(Killer::SystemdOomd, whom, Some(why)));
        } else if let Some((unit, processes)) = unit_of_oomd(text) {
            let told = |it: &&mut Eviction| it.by == Killer::SystemdOomd && it.whom.ends_with(unit);
            match evictions.iter_mut().rev().find(told) {
                Some(known) => known.processes = Some(processes),
                None => {
                    let new = found(Killer::SystemdOomd, unit, None);
                    evictions.push(Eviction { processes: Some(processes), ..new });
                }
            }
        } else if let Some((_, available)) = text.split_once("mem avail:") {
            self.available = Some(single_spaced(available));
        } else if let Some((_, limits)) = text.split_once("low memory! at or below ") {
            self.limits = Some(single_spaced(limits));
        } else if let Some((whom, signal)) = of_earlyoom(text) {
            let known = [self.available.as_deref(), self.limits.as_deref()];
            let why: Vec<String> = ["available: ", "at or below "]
                .iter()
                .zip(known)
                .filter_map(|(is, of)| Some(format!("{is}{}", of?)))
                .collect();
            let process = |whom: &str| whom.split(',').next().map(str::to_owned);
            let repeats = |it: &Eviction| it.by == Killer::Earlyoom && process(&it.whom) == process(&whom);
            // `earlyoom` first sends SIGTERM and then SIGKILL. The second signal is no new victim.
            if signal != "SIGKILL" || !evictions.last().is_some_and(repeats) {
                evictions.push(found(Killer::Earlyoom, &whom, Some(&why.join(", "))));
            }
        } else if let Some((before, why)) = text.split_once("The node was low on resource: memory") {
            let name = why.split_once("Container ").and_then(|(_, rest)| rest.split_whitespace().next());
            let name = name.or_else(|| object_of(before)).unwrap_or_default();
            evictions.push(found(Killer::Kubelet, name, Some(why.trim_start_matches(['.', ' ']))));
        } else if let Some((unit, _)) = text.split_once(": A process of this unit has been killed by the OOM killer") {
            let unit = unit.rsplit(' ').next().unwrap_or(unit);
            evictions.push(found(Killer::OfUnit, unit, None));
        } else if text.contains("OOMKilled") {
            // The line is `Reason: OOMKilled` from `kubectl describe`, or one from `kubectl get pods`, which begins
            // with the pod.
            let first = text.split_whitespace().next().unwrap_or_default().trim_matches(['"', '\'', ',']);
            let is_key = first.ends_with(':') || first.contains("OOMKilled") || first == "-";
            let name = if is_key { self.container.clone().unwrap_or_default() } else { first.to_owned() };
            // The present state of a container and its last one may both be of the same kill.
            let is_told = is_key && self.is_described;
            self.is_described = is_key;
            if !is_told {
                evictions.push(found(Killer::OfContainer, &name, None));
            }
        } else {
            if let [name] = text.split_whitespace().collect::<Vec<_>>()[..]
                && let Some(name) = name.strip_suffix(':')
            {
                self.is_in_limits = name == "Limits";
                if !PARTS.contains(&name) {
                    (self.container, self.is_described) = (Some(name.to_owned()), false);
                }
            }
            return false;
        }
        true
    }

    /// Reads a line in which `kubelet` says that it evicts pods, or that the kernel killed a process for want of memory on
    /// the whole node. Returns whether it is one. `found` makes a victim.
    fn takes_kubelet(
        &mut self,
        text: &str,
        evictions: &mut Vec<Eviction>,
        found: &dyn Fn(Killer, &str, Option<&str>) -> Eviction,
    ) -> bool {
        let is_open = |it: &&mut Eviction| it.by == Killer::Kubelet && it.whom.is_empty();
        let is_event = text.contains("EvictionThresholdMet") && text.contains("Attempting to reclaim");
        if is_event || text.contains(" to reclaim") && text.contains("viction manager: ") {
            self.is_for_memory = FOR_MEMORY.iter().any(|part| text.contains(part));
            if self.is_for_memory && evictions.last_mut().filter(is_open).is_none() {
                evictions.push(found(Killer::Kubelet, "", None));
            }
            return self.is_for_memory;
        }
        if text.contains(" evicted successfully") && self.is_for_memory {
            let quoted = text.split_once("pod=\"").and_then(|(_, rest)| rest.split('"').next());
            let bare = || text.split_once(" pod ").and_then(|(_, rest)| rest.split([' ', '(']).next());
            let pod = quoted.or_else(bare).unwrap_or_default();
            match evictions.last_mut().filter(is_open) {
                Some(open) => pod.clone_into(&mut open.whom),
                None => evictions.push(found(Killer::Kubelet, pod, None)),
            }
            return true;
        }
        const WHY: Option<&str> = Some("the whole node was out of memory");
        if let Some((_, event)) = text.split_once("Got sys oom event") {
            let name = process_of_event(event).unwrap_or_default();
            self.of_system = Some(name.clone());
            evictions.push(found(Killer::OfNode, &name, WHY));
            return true;
        }
        let Some((_, rest)) = text.split_once(SYSTEM_OOM) else { return false };
        let name = rest.split_once("victim process: ").map_or("", |(_, rest)| rest.split(',').next().unwrap_or(rest));
        if self.of_system.take().is_none_or(|known| known != name.trim()) {
            evictions.push(found(Killer::OfNode, name, WHY));
        }
        true
    }

    /// Reads the limit and the restarts of a killed container from `kubectl describe`. Returns whether the line has one.
    fn describes(&mut self, text: &str, evictions: &mut [Eviction]) -> bool {
        let Some(last) = evictions.last_mut().filter(|_| self.is_described) else { return false };
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["Restart", "Count:", count] => last.restarts = count.parse().ok(),
            ["memory:", limit] if self.is_in_limits => last.limit = Some(limit.to_owned()),
            _ => return false,
        }
        true
    }
}

/// Headings in `kubectl describe` that are no names of containers.
const PARTS: [&str; 10] =
    ["Containers", "Limits", "Requests", "Environment", "Mounts", "Conditions", "Volumes", "Events", "Ports", "Args"];

/// Reads the process from the event in a line `Got sys oom event`, which newer versions print as
/// `event="&{Pid:4711 ProcessName:java …}"` and older ones as `from cadvisor: &{4711 java …}`.
fn process_of_event(event: &str) -> Option<String> {
    let (_, fields) = event.split_once("&{")?;
    let after = |name: &str| fields.split_once(name).map(|(_, rest)| rest);
    let name = after("ProcessName:").or_else(|| fields.split_once(' ').map(|(_, rest)| rest))?;
    name.split([' ', '}']).next().map(str::to_owned)
}

/// Reads the cgroup and the reason from
/// `Killed /user.slice/a.scope due to memory pressure for /user.slice being 60.00% > 50.00% for > 20s …`.
fn of_oomd(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once("Killed ")?;
    let (whom, why) = rest.split_once(" due to ")?;
    let is_reason = why.starts_with("memory pressure for ") || why.starts_with("memory used (");
    (whom.starts_with('/') && is_reason).then_some((whom, why))
}

/// Reads the unit and the number of processes from `a.scope: systemd-oomd killed 12 process(es) in this unit.`
fn unit_of_oomd(text: &str) -> Option<(&str, u64)> {
    let (before, rest) = text.split_once(": systemd-oomd killed ")?;
    let unit = before.rsplit(' ').next()?;
    rest.split_whitespace().next()?.parse().ok().map(|processes| (unit, processes))
}

/// Reads the process and the signal from `sending SIGTERM to process 12 uid 1000 "code": badness 866, VmRSS 5 MiB`, or
/// from the line of older versions, `killing process 12 "bash" with signal 15: …`.
fn of_earlyoom(text: &str) -> Option<(String, &str)> {
    let (signal, rest) = match text.split_once("sending SIG") {
        Some((before, rest)) => {
            let (_, rest) = rest.split_once(" to process ")?;
            (text[before.len() + "sending ".len()..].split_whitespace().next()?, rest)
        }
        None => ("SIGTERM", text.split_once("killing process ").filter(|(_, rest)| rest.contains("badness"))?.1),
    };
    let pid = rest.split_whitespace().next()?.trim_end_matches(':');
    let name = rest.split_once('"').and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
    let size = rest.split_once("VmRSS ").map(|(_, size)| size.split(',').next().unwrap_or(size).trim());
    let size = size.map_or_else(String::new, |size| format!(", which had {size} in memory"));
    pid.parse::<u64>().ok().map(|pid| (format!("{name} (PID {pid}){size}"), signal))
}

/// Reads the object of an event, such as `pod/web-1`, which `kubectl get events` prints before the message.
fn object_of(before: &str) -> Option<&str> {
    before.split_whitespace().find_map(|word| word.strip_prefix("pod/").or_else(|| word.strip_prefix("Pod/")))
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::{read, tells};

    /// Returns the killer, the victim, the reason and the number of processes for each eviction in a log.
    fn told(text: &str) -> Vec<(Killer, String, Option<String>, Option<u64>)> {
        read(text).evictions.into_iter().map(|it| (it.by, it.whom, it.why, it.processes)).collect()
    }

    #[test]
    fn systemd_oomd_says_of_which_cgroup_and_by_which_pressure() {
        let text = "Dec 18 10:00:56 desk systemd-oomd[840]: Considered 50 cgroups for killing, top candidates were:\n\
            Dec 18 10:00:56 desk systemd-oomd[840]: Killed /user.slice/app.slice/a-1.scope due to memory pressure for \
            /user.slice being 51.07% > 50.00% for > 20s with reclaim activity\n\
            Dec 18 10:00:57 desk systemd[1837]: a-1.scope: systemd-oomd killed 12 process(es) in this unit.\n\
            Dec 18 10:09:57 desk systemd[1837]: b.scope: systemd-oomd killed 1 process(es) in this unit.\n\
            Dec 18 10:10:00 desk systemd-oomd[840]: Killed /c.slice/d.service due to memory used (16123125760) / total (16447131648) \
            and swap used (8000000000) / total (8388603904) being more than 90.00%\n";
        assert!(text.lines().skip(1).all(tells) && !tells(text.lines().next().unwrap()));
        let [first, second, third] = &told(text)[..] else { panic!("{:?}", told(text)) };
        assert_eq!((first.0, &*first.1, first.3), (Killer::SystemdOomd, "/user.slice/app.slice/a-1.scope", Some(12)));
        assert!(
            first.2.as_ref().unwrap().starts_with("memory pressure for /user.slice being 51.07% > 50.00%"),
            "{first:?}"
        );
        assert_eq!((&*second.1, &second.2, second.3), ("b.scope", &None, Some(1)));
        assert!(third.2.as_ref().unwrap().ends_with("being more than 90.00%"), "{third:?}");
    }

    #[test]
    fn earlyoom_says_what_was_available_and_asks_before_it_kills() {
        let text = "Oct 07 19:16:10 h earlyoom[2]: mem avail:   165 of 31880 MiB ( 0.52%), swap free: 19581 of 49151 MiB (39.84%)\n\
            Oct 07 19:16:10 h earlyoom[2]: low memory! at or below SIGTERM limits: mem  5.00%, swap 40.00%\n\
            Oct 07 19:16:10 h earlyoom[2]: sending SIGTERM to process 578 uid 1000 \"code\": badness 866, VmRSS 5 MiB\n\
            Oct 07 19:16:10 h earlyoom[2]: process exited after 0.1 seconds\n";
        let all = told(text);
        let [(by, whom, why, _)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((*by, &**whom), (Killer::Earlyoom, "code (PID 578), which had 5 MiB in memory"));
        let why = why.as_deref().unwrap();
        assert!(
            why.contains("available: 165 of 31880 MiB (0.52%)") && why.contains("SIGTERM limits: mem 5.00%"),
            "{why}"
        );
        // Lines from a terminal, from an older version, and from a version that had to send SIGKILL.
        let old = "mem avail:  1524 of 13855 MiB (10 %), swap free:    0 of    0 MiB ( 0 %)\n\
            low memory! at or below SIGTERM limits: mem 10 %, swap 10 %\nkilling process 275 \"bash\" with signal 15: badness 550, VmRSS 7609 MiB\n";
        assert_eq!(told(old)[0].1, "bash (PID 275), which had 7609 MiB in memory");
        let both = text.replace(
            "process exited",
            "sending SIGKILL to process 578 uid 1000 \"code\": badness 866, VmRSS 5 MiB\nprocess",
        );
        assert_eq!(told(&both).len(), 1);
    }

    #[test]
    fn kubelet_says_that_it_must_evict_and_which_pods_it_evicted() {
        let new = "I1126 10:00:00.123456    1234 eviction_manager.go:366] \"Eviction manager: attempting to reclaim\" resourceName=\"memory\"\n\
            I1126 10:00:00.223456    1234 eviction_manager.go:377] \"Eviction manager: must evict pod(s) to reclaim\" resourceName=\"memory\"\n\
            I1126 10:00:00.323456    1234 eviction_manager.go:395] \"Eviction manager: pods ranked for eviction\" pods=[\"default/web-1\"]\n\
            I1126 10:00:01.323456    1234 eviction_manager.go:596] \"Eviction manager: pod is evicted successfully\" pod=\"default/web-1\"\n";
        let old = "W0312 08:13:22.100000    2211 eviction_manager.go:329] eviction manager: attempting to reclaim memory\n\
            I0312 08:13:22.100100    2211 eviction_manager.go:340] eviction manager: must evict pod(s) to reclaim memory\n\
            I0312 08:13:23.100200    2211 eviction_manager.go:400] eviction manager: pod web_b(12-3) is evicted successfully\n";
        for (text, pod) in [(new, "default/web-1"), (old, "web_b")] {
            assert_eq!(told(text), [(Killer::Kubelet, pod.to_owned(), None, None)]);
            // A line alone is enough, and then the pod is unknown.
            for line in text.lines().take(2) {
                assert!(tells(line), "{line}");
                assert_eq!(told(line), [(Killer::Kubelet, String::new(), None, None)]);
            }
            let disk = text
                .replace("\"memory\"", "\"ephemeral-storage\"")
                .replace("reclaim memory", "reclaim ephemeral-storage");
            assert!(told(&disk).is_empty(), "{disk}");
        }
    }

    #[test]
    fn a_kill_on_the_whole_node_is_told_once_in_each_form() {
        let event =
            "Warning  SystemOOM  3m   kubelet, node-1  System OOM encountered, victim process: java, pid: 4711\n";
        // Events of `kubectl describe node`.
        assert_eq!(
            told("Warning  EvictionThresholdMet  3m  kubelet  Attempting to reclaim memory\n"),
            [(Killer::Kubelet, String::new(), None, None)]
        );
        assert_eq!(told("Warning  EvictionThresholdMet  3m  kubelet  Attempting to reclaim ephemeral-storage\n"), []);
        let why = Some("the whole node was out of memory".to_owned());
        for text in [
            "I0926 12:00:00.000000    1000 oom_watcher_linux.go:79] \"Got sys oom event\" event=\"&{Pid:4711 ProcessName:java TimeOfDeath:2023-09-26}\"\n",
            "I0926 12:00:00.000000    1000 oom_watcher.go:74] Got sys oom event from cadvisor: &{4711 java 2019-03-12 08:13:22 +0000 UTC / /a}\n",
            "",
        ] {
            assert!(text.lines().all(tells));
            assert_eq!(told(&format!("{text}{event}")), [(Killer::OfNode, "java".to_owned(), why.clone(), None)]);
        }
        assert_eq!(told(&event.repeat(2)).len(), 2);
        assert_eq!(
            told("2m  Warning  SystemOOM  node/n  System OOM encountered\n"),
            [(Killer::OfNode, String::new(), why, None)]
        );
    }

    #[test]
    fn kubectl_describe_says_the_limit_and_the_restarts_of_a_killed_container() {
        let container = |name: &str, reason: &str, limit: &str| {
            format!(
                "  {name}:\n    Container ID:   x\n    State:          Running\n    Last State:     Terminated\n      Reason:       {reason}\n\
                 \x20     Exit Code:    137\n    Ready:          True\n    Restart Count:  12\n    Limits:\n      cpu:     500m\n\
                 \x20     memory:  {limit}\n    Requests:\n      memory:     256Mi\n    Environment:  <none>\n"
            )
        };
        let text = format!(
            "Name: web\nContainers:\n{}{}",
            container("app", "OOMKilled", "512Mi"),
            container("sidecar", "Error", "64Mi")
        );
        let all = read(&text).evictions;
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!((one.by, &*one.whom), (Killer::OfContainer, "app"));
        assert_eq!((one.limit.as_deref(), one.restarts), (Some("512Mi"), Some(12)));
        let twice =
            text.replace("State:          Running", "State:          Terminated\n      Reason:       OOMKilled");
        let whom: Vec<String> = read(&twice).evictions.into_iter().map(|it| it.whom).collect();
        assert_eq!(whom, ["app", "sidecar"]);
    }

    #[test]
    fn kubernetes_says_which_container_or_pod() {
        let text = "Warning  Evicted  3m  kubelet  The node was low on resource: memory. Container app was using 30332Ki, which exceeds its \
            request of 0.\n\
            5m  Warning  Evicted  pod/web-1  The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi.\n\
            db-0   0/1   OOMKilled   5 (2m ago)   10m\n\
            \x20 sidecar:\n    Container ID:  x\n    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n\
            I0101 kubelet: System OOM encountered, victim process: java, pid: 12\n\
            Jan 1 10:00:00 h systemd[1]: db.service: A process of this unit has been killed by the OOM killer.\n";
        let all = told(text);
        let whom: Vec<(Killer, &str)> = all.iter().map(|it| (it.0, &*it.1)).collect();
        use Killer::{Kubelet, OfContainer, OfNode, OfUnit};
        assert_eq!(
            whom,
            [
                (Kubelet, "app"),
                (Kubelet, "web-1"),
                (OfContainer, "db-0"),
                (OfContainer, "sidecar"),
                (OfNode, "java"),
                (OfUnit, "db.service")
            ]
        );
        assert_eq!(all[1].2.as_deref(), Some("Threshold quantity: 100Mi, available: 80Mi"));
    }
}
