//! Kernels, machines and experiments: by name from the files that are embedded here, or from a user's file.
//!
//! [`library`] finds them, [`embedded`] holds `machines/` and `experiments/`, [`versions`] orders kernels. [`experiment`] and
//! [`hardware`] are what the files say; [`change`] sets single values, [`values`] shows them, [`difference`] lists what separates two
//! kernels. [`ground`] names where an experiment may run.

pub mod change;
pub mod difference;
pub mod embedded;
pub mod experiment;
pub mod ground;
pub mod hardware;
pub mod library;
pub mod machine_file;
pub mod values;
pub mod versions;
