//! The loaded library libibverbs, and the devices that it lists.

use std::{
    ffi::{CStr, OsStr, c_int},
    io,
    ptr::NonNull,
    sync::Arc,
};

use super::{c, context::Context, error::VerbsError, ffi::Symbols};

/// The file that [`Library::open`] loads.
const LIBRARY: &str = "libibverbs.so.1";

/// The loaded library libibverbs, with every function that this crate needs.
///
/// The library stays loaded as long as any handle made from it exists. It loads the drivers of the devices
/// ("providers") itself, from the package `ibverbs-providers`.
#[derive(Debug)]
pub struct Library {
    pub(super) symbols: Symbols,
}

impl Library {
    /// Loads `libibverbs.so.1` from the system's directories of shared libraries.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Library`] when it is not installed, [`VerbsError::Symbol`] when it lacks a function.
    pub fn open() -> Result<Arc<Library>, VerbsError> {
        Self::load(OsStr::new(LIBRARY))
    }

    pub(super) fn load(path: &OsStr) -> Result<Arc<Library>, VerbsError> {
        let symbols = Symbols::load(path)?;
        Ok(Arc::new(Library { symbols }))
    }

    /// Returns the names of this machine's devices, in the library's order.
    ///
    /// # Errors
    ///
    /// [`VerbsError::List`], when the kernel lacks RDMA or hides it from this process.
    pub fn devices(&self) -> Result<Vec<String>, VerbsError> {
        let list = DeviceList::get(self)?;
        Ok(list.pointers().map(|device| list.name(device)).collect())
    }

    /// Opens the device `name`.
    ///
    /// # Errors
    ///
    /// [`VerbsError::NoDevice`], which names the existing devices, [`VerbsError::Open`] and [`VerbsError::List`].
    pub fn open_device(self: &Arc<Self>, name: &str) -> Result<Context, VerbsError> {
        let list = DeviceList::get(self)?;
        let Some(device) = list.pointers().find(|device| list.name(*device) == name) else {
            return Err(VerbsError::NoDevice {
                device: name.to_owned(),
                existing: list.pointers().map(|device| list.name(device)).collect(),
            });
        };
        // SAFETY: the entry belongs to a list that is not yet freed; an open context keeps its device beyond that.
        let context = unsafe { (self.symbols.ibv_open_device)(device) };
        let seen = io::Error::last_os_error();
        let context = NonNull::new(context).ok_or_else(|| VerbsError::Open {
            device: name.to_owned(),
            seen,
        })?;
        Context::new(Arc::clone(self), context, name)
    }
}

/// The array that `ibv_get_device_list` returns.
struct DeviceList<'a> {
    library: &'a Library,
    entries: NonNull<*mut c::ibv_device>,
    count: usize,
}

impl DeviceList<'_> {
    fn get(library: &Library) -> Result<DeviceList<'_>, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: the call writes the number of entries to `count`.
        let entries = unsafe { (library.symbols.ibv_get_device_list)(&raw mut count) };
        let seen = io::Error::last_os_error();
        Ok(DeviceList {
            library,
            entries: NonNull::new(entries).ok_or(VerbsError::List { seen })?,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    fn pointers(&self) -> impl Iterator<Item = *mut c::ibv_device> + '_ {
        // SAFETY: the array has `count` entries and lives until `drop`.
        (0..self.count).map(|index| unsafe { *self.entries.as_ptr().add(index) })
    }

    fn name(&self, device: *mut c::ibv_device) -> String {
        // SAFETY: the entry belongs to the list; the name is inside it and NUL-terminated.
        let name = unsafe { CStr::from_ptr((self.library.symbols.ibv_get_device_name)(device)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: the array came from ibv_get_device_list, and no entry is used afterwards.
        unsafe { (self.library.symbols.ibv_free_device_list)(self.entries.as_ptr()) };
    }
}
