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
}

/// Parts of lines by which the logs of user-space killers are recognised.
pub(super) const SIGNS: [&str; 9] = [
    " due to memory pressure for ",
    " due to memory used (",
    ": systemd-oomd killed ",
    "low memory! at or below SIGTERM limits",
    "low memory! at or below SIGKILL limits",
    "The node was low on resource: memory",
    "OOMKilled",
    "System OOM encountered, victim process: ",
    "has been killed by the OOM killer",
];

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
        };
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
        } else if let Some((_, rest)) = text.split_once("System OOM encountered, victim process: ") {
            let name = rest.split(',').next().unwrap_or(rest);
            evictions.push(found(Killer::OfNode, name, Some("the whole node was out of memory")));
        } else if let Some((unit, _)) = text.split_once(": A process of this unit has been killed by the OOM killer") {
            let unit = unit.rsplit(' ').next().unwrap_or(unit);
            evictions.push(found(Killer::OfUnit, unit, None));
        } else if text.contains("OOMKilled") {
            // The line is `Reason: OOMKilled` from `kubectl describe`, or one from `kubectl get pods`, which begins
            // with the pod.
            let first = text.split_whitespace().next().unwrap_or_default().trim_matches(['"', '\'', ',']);
            let is_key = first.ends_with(':') || first.contains("OOMKilled") || first == "-";
            let name = if is_key { self.container.clone().unwrap_or_default() } else { first.to_owned() };
            evictions.push(found(Killer::OfContainer, &name, None));
        } else {
            if let [name] = text.split_whitespace().collect::<Vec<_>>()[..]
                && let Some(name) = name.strip_suffix(':')
            {
                self.container = Some(name.to_owned());
            }
            return false;
        }
        true
    }
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
