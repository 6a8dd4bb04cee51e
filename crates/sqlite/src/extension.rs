//! The entry points of the loadable extension.

#![allow(unsafe_code)]

use crate::api::{Api, Routines, c_string};
use crate::register::{Vfs, register_with};
use crate::source::{Source, parse_size};
use libsqlite3_sys as ffi;
use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

/// The name of the extension's VFS.
const NAME: &str = "highwater";

/// The variable that has the size of the extension's memory.
const VARIABLE: &str = "HIGHWATER_SQLITE_MEMORY";

/// Size of the extension's memory if nothing else is said, bytes.
const SIZE: u64 = 64 << 20;

/// The extension's VFSs, which stay registered until the process ends: one, or one for each SQLite of the process.
static LOADED: Mutex<Vec<Vfs>> = Mutex::new(Vec::new());

fn load(api: Api) -> Result<(), String> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if loaded.iter().any(|vfs| vfs.is_known_to(&api)) {
        return Ok(());
    }
    let size = match std::env::var(VARIABLE) {
        Ok(text) => parse_size(&text).map_err(|text| format!("{VARIABLE}: {text}"))?,
        Err(std::env::VarError::NotPresent) => SIZE,
        Err(error) => return Err(format!("{VARIABLE}: {error}")),
    };
    let vfs = register_with(api, Source::Later(size), NAME).map_err(|error| error.to_string())?;
    loaded.push(vfs);
    Ok(())
}

/// Loads the extension: registers the VFS `highwater` with the SQLite that calls. SQLite derives the name of this function
/// from that of the file `libhighwater_sqlite.so`. Programs do not call it; they call [`register`](crate::register).
///
/// The memory is started for the first database that is opened on the VFS. Its size is the one that the URI of this
/// database names (`file:data.db?vfs=highwater&highwater_memory=256M`), or else the one in the environment variable
/// `HIGHWATER_SQLITE_MEMORY`, or else 64 MiB. The VFS stays registered until the process ends, and so does the extension
/// stay loaded. To load it a second time does nothing.
///
/// Returns `SQLITE_OK_LOAD_PERMANENTLY`, or `SQLITE_ERROR` with a text at `message`: if the variable has no size, or
/// another VFS has the name.
///
/// # Safety
/// SQLite alone calls this, with the arguments of the entry point of an extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_highwatersqlite_init(
    _database: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite passes the table of its functions.
    let Some(api) = (unsafe { routines.cast::<Routines>().as_ref() }).and_then(Api::passed) else {
        return ffi::SQLITE_ERROR;
    };
    match catch_unwind(|| load(api)) {
        Ok(Ok(())) => ffi::SQLITE_OK_LOAD_PERMANENTLY,
        Ok(Err(text)) => {
            if !message.is_null() {
                // SAFETY: SQLite passes the place for a text, which it frees.
                unsafe { *message = api.copy(&c_string(&text)) };
            }
            ffi::SQLITE_ERROR
        }
        Err(_) => ffi::SQLITE_INTERNAL,
    }
}

/// Loads the extension from a file of the name `highwater.so`, as [`sqlite3_highwatersqlite_init`] does.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_highwater_init(
    database: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { sqlite3_highwatersqlite_init(database, message, routines) }
}
