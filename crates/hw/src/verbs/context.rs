//! An open device: its properties, its ports and its events.

use std::{
    ffi::c_int,
    fmt, io,
    mem::MaybeUninit,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    sync::Arc,
};

use nix::errno::Errno;
use verbatim_wire::{Qpn, verbs::EventKind};

use crate::wait::set_nonblocking;

use super::{
    attributes::{AsyncEvent, DeviceAttributes, GidEntry, PortAttributes, is_about_a_queue_pair},
    c,
    error::VerbsError,
    ffi::{Symbols, Zeroed, failure},
    library::Library,
};

/// An open device.
///
/// Cheap to clone. The device is closed when the last clone and the last object made from it are dropped.
#[derive(Clone, Debug)]
pub struct Context {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) pointer: NonNull<c::ibv_context>,
    pub(super) name: String,
    library: Arc<Library>,
}

// SAFETY: libibverbs may be called from several threads at once with the same context; the fields read here do not
// change while it is open.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

impl Inner {
    pub(super) fn symbols(&self) -> &Symbols {
        &self.library.symbols
    }

    /// Makes the error of a failed call on the part `what` of this device.
    pub(super) fn failed(&self, call: &'static str, what: &str, seen: io::Error) -> VerbsError {
        let device = self.describe(what);
        VerbsError::Call { call, device, seen }
    }

    /// Checks the result of a function that returns an error number. `what` is formatted only on a failure, because
    /// every post calls this function.
    pub(super) fn check(&self, call: &'static str, what: fmt::Arguments<'_>, code: c_int) -> Result<(), VerbsError> {
        if code == 0 {
            return Ok(());
        }
        Err(self.failed(call, &what.to_string(), failure(code)))
    }

    /// Converts the pointer that a function returned. A null pointer gives an error with the present errno.
    pub(super) fn object<T>(&self, call: &'static str, pointer: *mut T) -> Result<NonNull<T>, VerbsError> {
        let seen = io::Error::last_os_error();
        NonNull::new(pointer).ok_or_else(|| self.failed(call, "", seen))
    }

    /// Makes the error for invalid arguments, with which the library must not be called.
    pub(super) fn argument(&self, call: &'static str, what: impl Into<String>) -> VerbsError {
        VerbsError::Argument {
            call,
            device: self.name.clone(),
            what: what.into(),
        }
    }

    pub(super) fn not_offered(&self, call: &'static str) -> VerbsError {
        let device = self.name.clone();
        VerbsError::NotOffered { call, device }
    }

    fn describe(&self, what: &str) -> String {
        match what {
            "" => self.name.clone(),
            what => format!("{} ({what})", self.name),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the context is open, and every object made from it holds an Arc of this, so none exists any more.
        unsafe { (self.symbols().ibv_close_device)(self.pointer.as_ptr()) };
    }
}

impl Context {
    pub(super) fn new(
        library: Arc<Library>,
        pointer: NonNull<c::ibv_context>,
        name: &str,
    ) -> Result<Context, VerbsError> {
        let name = name.to_owned();
        // From here on, an error drops `inner`, which closes the context.
        let inner = Inner { pointer, name, library };
        // SAFETY: the context is open, and so is the descriptor of its events.
        let events = unsafe { BorrowedFd::borrow_raw((*pointer.as_ptr()).async_fd) };
        set_nonblocking(events).map_err(|seen| inner.failed("fcntl", "its events", seen))?;
        let inner = Arc::new(inner);
        Ok(Context { inner })
    }

    /// Returns the name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Queries the properties and limits of the device.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn query_device(&self) -> Result<DeviceAttributes, VerbsError> {
        let mut attributes = c::ibv_device_attr::zeroed();
        // SAFETY: the context is open; the structure is a local variable.
        let code = unsafe { (self.inner.symbols().ibv_query_device)(self.pointer(), &raw mut attributes) };
        self.inner.check("ibv_query_device", format_args!(""), code)?;
        Ok(DeviceAttributes::from(&attributes))
    }

    /// Queries the state and limits of a port; ports are numbered from 1.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], with EINVAL when there is no such port.
    pub fn query_port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let mut attributes = c::ibv_port_attr::zeroed();
        // The function fills a shorter structure than the header declares: the fields after `link_layer` stay 0.
        // SAFETY: the context is open; the structure is ours and longer than the filled part.
        let code = unsafe { (self.inner.symbols().ibv_query_port)(self.pointer(), port, (&raw mut attributes).cast()) };
        self.inner.check("ibv_query_port", format_args!("port {port}"), code)?;
        Ok(PortAttributes::from(&attributes))
    }

    /// Returns the GIDs of a port, without empty entries of the port's table.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn gid_table(&self, port: u8) -> Result<Vec<GidEntry>, VerbsError> {
        let length = u32::try_from(self.query_port(port)?.gid_tbl_len).unwrap_or(0);
        let mut table = Vec::new();
        for index in 0..length {
            let mut entry = c::ibv_gid_entry::zeroed();
            // SAFETY: the context is open; the entry is ours and has the given length.
            let code = unsafe {
                (self.inner.symbols()._ibv_query_gid_ex)(
                    self.pointer(),
                    port.into(),
                    index,
                    &raw mut entry,
                    0,
                    size_of::<c::ibv_gid_entry>(),
                )
            };
            if code == Errno::ENODATA as c_int {
                continue; // This index is empty.
            }
            let what = format_args!("port {port}, index {index}");
            self.inner.check("ibv_query_gid_ex", what, code)?;
            table.push(GidEntry::from(&entry));
        }
        Ok(table)
    }

    /// Returns and acknowledges the next event of the device or of one of its objects. Does not wait: returns `None` if
    /// there is no event.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], when the device was removed.
    pub fn next_event(&self) -> Result<Option<AsyncEvent>, VerbsError> {
        // rdma-sys declares the kind as a Rust enum, which has no value for an event of a newer library. The code
        // therefore reads the kind as a number, as in C.
        let mut event = MaybeUninit::<c::ibv_async_event>::zeroed();
        let event = event.as_mut_ptr();
        // SAFETY: the context is open; the event is ours.
        if unsafe { (self.inner.symbols().ibv_get_async_event)(self.pointer(), event) } != 0 {
            return match Errno::last() {
                Errno::EAGAIN | Errno::EINTR => Ok(None),
                errno => Err(self.inner.failed("ibv_get_async_event", "", errno.into())),
            };
        }
        // SAFETY: the event was filled, or is zero; the C enumeration is a number of 32 bits.
        let kind = EventKind(unsafe { (&raw const (*event).event_type).cast::<u32>().read() });
        // SAFETY: the kind determines the valid member of the union; the queue pair exists until the event is
        // acknowledged.
        let qpn = is_about_a_queue_pair(kind).then(|| Qpn(unsafe { (*(*event).element.qp).qp_num }));
        // SAFETY: the event is acknowledged once and not used afterwards.
        unsafe { (self.inner.symbols().ibv_ack_async_event)(event) };
        Ok(Some(AsyncEvent { kind, qpn }))
    }

    pub(super) fn pointer(&self) -> *mut c::ibv_context {
        self.inner.pointer.as_ptr()
    }

    /// Whether both are the same open context.
    pub(super) fn is(&self, other: &Context) -> bool {
        ptr::eq(self.pointer(), other.pointer())
    }
}
