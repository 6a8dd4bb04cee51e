//! The machine, scale and parameters of runs on the ground `guest`, where full size would take too long.

use super::{Request, Set};
use catalogue::experiment::OnGuest;
use catalogue::find;
use catalogue::ground::Ground;
use placed::Error;

impl Request {
    /// Returns the request with the machine, scale and parameters that the experiment states for runs with a guest, and
    /// with a note that says so. If no ground is a guest, returns the request unchanged. Guests need a smaller size
    /// because an emulated guest is slow: a run of full size takes many minutes, and a run of fixed duration does
    /// almost no work. All grounds get the size for guests, so that runs are comparable. Values that the user gave are
    /// not replaced.
    ///
    /// # Errors
    /// When the experiment cannot be read.
    pub fn sized_for_guests(mut self) -> Result<Self, Error> {
        if !self.grounds.contains(&Ground::Guest) {
            return Ok(self);
        }
        let OnGuest { machine, scale, set } = find::experiment(&self.experiment)?.guest;
        let mut taken = Vec::new();
        if let Some(machine) = machine.filter(|_| self.machine.is_none()) {
            taken.push(format!("--machine {machine}"));
            self.machine = Some(machine);
        }
        if let Some(scale) = scale.filter(|_| self.scale.is_none()) {
            taken.push(format!("--scale {scale}"));
            self.scale = Some(scale.parse().map_err(|message| Error { place: None, message })?);
        }
        for (key, value) in set {
            if !self.set.iter().any(|set| set.key == key) {
                taken.push(format!("--set {key}={value}"));
                self.set.push(Set { key, values: vec![value] });
            }
        }
        if !taken.is_empty() {
            self.notes
                .push(format!("all columns are of the size for guests that the experiment has: {}", taken.join(" ")));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(grounds: &[Ground]) -> Request {
        Request { experiment: "randread".into(), grounds: grounds.to_vec(), ..Request::default() }
    }

    #[test]
    fn a_run_with_a_guest_ends_by_operations_and_says_so() {
        let sized = request(&[Ground::Sim, Ground::Guest]).sized_for_guests().unwrap();
        assert!(sized.set.iter().any(|set| set.key == "params.operations"));
        assert!(sized.machine.is_some() && sized.notes[0].contains("params.operations="));
        let plain = request(&[Ground::Sim]).sized_for_guests().unwrap();
        assert!(plain.set.is_empty() && plain.machine.is_none() && plain.notes.is_empty());
    }

    #[test]
    fn what_the_user_gives_stays() {
        let own = Set { key: "params.operations".into(), values: vec!["7".into()] };
        let (machine, scale) = (Some("randread-512m".to_owned()), "1/2".parse().ok());
        let given = Request { set: vec![own.clone()], machine, scale, ..request(&[Ground::Guest]) };
        let sized = given.clone().sized_for_guests().unwrap();
        assert_eq!((sized.set, sized.scale, sized.machine), (vec![own], given.scale, given.machine));
        assert!(sized.notes.is_empty());
    }
}
