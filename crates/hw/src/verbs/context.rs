//! An open device: what it is and has, and what happens to it.

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
/// Cheap to clone. The device is closed when the last clone and the last object made from it are gone.
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

// SAFETY: libibverbs may be called from any thread, several at once, with the same context; the fields that we read of
// it do not change while it is open.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Inner {
    pub(super) fn symbols(&self) -> &Symbols {
        &self.library.symbols
    }

    /// A failed call on `what` of this device.
    pub(super) fn failed(&self, call: &'static str, what: &str, seen: io::Error) -> VerbsError {
        let device = self.describe(what);
        VerbsError::Call { call, device, seen }
    }

    /// `Ok` where a function that returns an error number returned 0. `what` is put into words only where it did not:
    /// posting goes through here.
    pub(super) fn check(&self, call: &'static str, what: fmt::Arguments<'_>, code: c_int) -> Result<(), VerbsError> {
        if code == 0 {
            return Ok(());
        }
        Err(self.failed(call, &what.to_string(), failure(code)))
    }

    /// The object that a function returned, or its errno where it returned null.
    pub(super) fn object<T>(&self, call: &'static str, pointer: *mut T) -> Result<NonNull<T>, VerbsError> {
        let seen = io::Error::last_os_error();
        NonNull::new(pointer).ok_or_else(|| self.failed(call, "", seen))
    }

    /// Arguments that the library must not be called with.
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
        // SAFETY: the context is open, and every object made from it holds an Arc of this, so all are gone.
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
        // From here on, an error closes the context.
        let inner = Inner { pointer, name, library };
        // SAFETY: the context is open, and with it the descriptor of its events.
        let events = unsafe { BorrowedFd::borrow_raw((*pointer.as_ptr()).async_fd) };
        set_nonblocking(events).map_err(|seen| inner.failed("fcntl", "its events", seen))?;
        let inner = Arc::new(inner);
        Ok(Context { inner })
    }

    /// Name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What the device is and how much it takes.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn query_device(&self) -> Result<DeviceAttributes, VerbsError> {
        let mut attributes = c::ibv_device_attr::zeroed();
        // SAFETY: the context is open, the structure ours.
        let code = unsafe { (self.inner.symbols().ibv_query_device)(self.pointer(), &raw mut attributes) };
        self.inner.check("ibv_query_device", format_args!(""), code)?;
        Ok(DeviceAttributes::from(&attributes))
    }

    /// State and limits of one port; ports count from 1.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], with EINVAL when there is no such port.
    pub fn query_port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let mut attributes = c::ibv_port_attr::zeroed();
        // The function knows a shorter structure than the header of today: what came after `link_layer` stays 0.
        // SAFETY: the context is open, the structure ours and longer than what is filled.
        let code = unsafe { (self.inner.symbols().ibv_query_port)(self.pointer(), port, (&raw mut attributes).cast()) };
        self.inner.check("ibv_query_port", format_args!("port {port}"), code)?;
        Ok(PortAttributes::from(&attributes))
    }

    /// The GIDs of a port. Empty entries are left out; `index` is that of the port's table.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn gid_table(&self, port: u8) -> Result<Vec<GidEntry>, VerbsError> {
        let length = u32::try_from(self.query_port(port)?.gid_tbl_len).unwrap_or(0);
        let mut table = Vec::new();
        for index in 0..length {
            let mut entry = c::ibv_gid_entry::zeroed();
            // SAFETY: the context is open, the entry ours and as long as we say.
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
                continue; // Nothing at this index.
            }
            let what = format_args!("port {port}, index {index}");
            self.inner.check("ibv_query_gid_ex", what, code)?;
            table.push(GidEntry::from(&entry));
        }
        Ok(table)
    }

    /// The next thing that happened to the device or to one of its objects, acknowledged; `None` when nothing did. It
    /// does not wait.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], when the device went away.
    pub fn next_event(&self) -> Result<Option<AsyncEvent>, VerbsError> {
        // rdma-sys has the kind as a Rust enum, and a newer library's event is no value of it. So the number is read,
        // as C has it.
        let mut event = MaybeUninit::<c::ibv_async_event>::zeroed();
        let event = event.as_mut_ptr();
        // SAFETY: the context is open, the event ours.
        if unsafe { (self.inner.symbols().ibv_get_async_event)(self.pointer(), event) } != 0 {
            return match Errno::last() {
                Errno::EAGAIN | Errno::EINTR => Ok(None),
                errno => Err(self.inner.failed("ibv_get_async_event", "", errno.into())),
            };
        }
        // SAFETY: the event was filled, or is zero; C's enumeration is a number of 32 bits.
        let kind = EventKind(unsafe { (&raw const (*event).event_type).cast::<u32>().read() });
        // SAFETY: the kind tells which member of the union is set; the queue pair exists until the event is
        // acknowledged.
        let qpn = is_about_a_queue_pair(kind).then(|| Qpn(unsafe { (*(*event).element.qp).qp_num }));
        // SAFETY: acknowledged once, and not used afterwards.
        unsafe { (self.inner.symbols().ibv_ack_async_event)(event) };
        Ok(Some(AsyncEvent { kind, qpn }))
    }

    pub(super) fn pointer(&self) -> *mut c::ibv_context {
        self.inner.pointer.as_ptr()
    }

    /// Whether both are the same opening of the same device.
    pub(super) fn is(&self, other: &Context) -> bool {
        ptr::eq(self.pointer(), other.pointer())
    }
}
