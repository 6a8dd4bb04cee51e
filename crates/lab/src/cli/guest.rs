//! The verb `guest check`.

use super::{End, print};
use catalogue::ground::GroundOptions;
use grounds::real_time::guest;
use std::path::PathBuf;

/// The verbs about guests.
#[derive(clap::Subcommand)]
pub enum Which {
    /// Check whether a kernel image can be booted on this computer as the ground `guest` boots it, and list what is
    /// missing
    Check(Arguments),
}

/// Arguments of `highwater guest check`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kernel, a bzImage: /boot/vmlinuz-…, or arch/x86/boot/bzImage in the source tree of a built kernel.
    /// Repeatable
    #[arg(long, value_name = "FILE")]
    kernel_image: Vec<PathBuf>,
    /// The folder with the modules of the kernel [default: lib/modules near the image, or that of this computer]
    #[arg(long, value_name = "DIR", requires = "kernel_image")]
    kernel_modules: Option<PathBuf>,
}

/// Reports, for each part that a guest needs, whether this part is there. Fails if a part is missing.
pub fn run(Which::Check(arguments): &Which) -> Result<(), End> {
    let place = GroundOptions {
        kernel_images: arguments.kernel_image.clone(),
        kernel_modules: arguments.kernel_modules.clone(),
        ..GroundOptions::default()
    };
    let found = guest::check(&place);
    let missing = found.iter().filter(|part| part.is_err()).count();
    let first = match missing {
        0 => "A guest can run here.".to_owned(),
        1 => "A guest cannot run here: one thing is missing.".to_owned(),
        many => format!("A guest cannot run here: {many} things are missing."),
    };
    let line = |part: &Result<String, String>| match part {
        Ok(is) => format!("  there    {is}\n"),
        Err(why) => format!("  missing  {why}\n"),
    };
    print(&format!("{first}\n\n{}", found.iter().map(line).collect::<String>()))?;
    if missing == 0 { Ok(()) } else { Err(End::Failed(first)) }
}
