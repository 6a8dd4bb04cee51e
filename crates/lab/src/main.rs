//! The command `highwater`.

fn main() -> std::process::ExitCode {
    lab::cli::main()
}
