//! Protection domains, registered memory and address handles.
//!
//! A remote side may write into registered memory at any time, and the device under test is expected to misbehave. So
//! nobody gets a slice of it: [`MemoryRegion::read`] and [`MemoryRegion::write`] copy.

use std::{
    io, ptr,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
};

use memmap2::{Advice, MmapMut, MmapRaw};
use verbatim_wire::verbs::{Access, AddressVector, Service};

use super::{
    c, completion::CompletionQueue, context::Context, error::VerbsError, ffi::Symbols, modify::address_to_c,
    queue_pair::QueuePair, types::access_flags, work::Segment,
};

/// A protection domain: memory and queue pairs work together only within one.
///
/// Cheap to clone; freed with the last clone and the last object made from it.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    inner: Arc<Domain>,
}

#[derive(Debug)]
struct Domain {
    pointer: NonNull<c::ibv_pd>,
    context: Context,
}

// SAFETY: libibverbs may be called from any thread with the same protection domain; we read none of its fields.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: everything made from it holds an Arc of this, so all is gone; the context is still open.
        unsafe { (self.context.inner.symbols().ibv_dealloc_pd)(self.pointer.as_ptr()) };
    }
}

impl Context {
    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`].
    pub fn create_protection_domain(&self) -> Result<ProtectionDomain, VerbsError> {
        // SAFETY: the context is open.
        let pointer = unsafe { (self.inner.symbols().ibv_alloc_pd)(self.pointer()) };
        let pointer = self.inner.object("ibv_alloc_pd", pointer)?;
        let context = self.clone();
        let inner = Arc::new(Domain { pointer, context });
        Ok(ProtectionDomain { inner })
    }
}

impl ProtectionDomain {
    /// Allocates `length` bytes of zeroes from a page boundary on, and registers them.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Argument`] for no bytes at all, [`VerbsError::Call`] where memory is short or may not be locked.
    pub fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, VerbsError> {
        let device = &self.context().inner;
        if length == 0 {
            return Err(device.argument("ibv_reg_mr", "a memory region of 0 bytes: expected at least 1"));
        }
        let memory = map(length).map_err(|seen| device.failed("mmap", &format!("{length} bytes"), seen))?;
        let flags = access_flags(access).cast_signed();
        // SAFETY: the domain exists; the memory is ours and stays mapped until the region is gone, see `Region::drop`.
        let pointer =
            unsafe { (device.symbols().ibv_reg_mr)(self.pointer(), memory.as_mut_ptr().cast(), length, flags) };
        let seen = io::Error::last_os_error();
        let Some(pointer) = NonNull::new(pointer) else {
            return Err(device.failed("ibv_reg_mr", &format!("{length} bytes"), seen));
        };
        let inner = Arc::new(Region {
            pointer,
            memory: Some(memory),
            copying: Mutex::new(()),
            domain: self.clone(),
        });
        Ok(MemoryRegion { inner })
    }

    /// Makes an address handle: where datagrams of an unreliable queue pair go, through this port of ours.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`]; on Ethernet also when the GID is not resolved to a MAC address.
    pub fn create_address_handle(&self, address: &AddressVector, port: u8) -> Result<AddressHandle, VerbsError> {
        let mut attributes = address_to_c(address, port);
        let device = &self.context().inner;
        // SAFETY: the domain exists; the attributes are read before the call returns.
        let pointer = unsafe { (device.symbols().ibv_create_ah)(self.pointer(), &raw mut attributes) };
        let pointer = device.object("ibv_create_ah", pointer)?;
        let domain = self.clone();
        let inner = Arc::new(Handle { pointer, domain });
        Ok(AddressHandle { inner })
    }

    /// Makes a queue pair, in state RESET, whose completions go into `queue`: for so many requests on their way each
    /// way, of one segment each. Addresses that it is given are reached through `port`.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`], and [`VerbsError::Argument`] for a completion queue of another context.
    pub fn create_queue_pair(
        &self,
        service: Service,
        port: u8,
        queue: &CompletionQueue,
        (send_depth, receive_depth): (u32, u32),
    ) -> Result<QueuePair, VerbsError> {
        QueuePair::new(self, (service, port), queue, (send_depth, receive_depth))
    }

    /// The device that it belongs to.
    pub(super) fn context(&self) -> &Context {
        &self.inner.context
    }

    pub(super) fn pointer(&self) -> *mut c::ibv_pd {
        self.inner.pointer.as_ptr()
    }

    pub(super) fn symbols(&self) -> &Symbols {
        self.context().inner.symbols()
    }
}

/// Registered memory that it owns, from a page boundary on.
///
/// Cheap to clone. It is deregistered when the last clone is gone and no work request that was posted with it is still
/// on its way, as far as completions told (see [`QueuePair`]).
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    inner: Arc<Region>,
}

#[derive(Debug)]
struct Region {
    pointer: NonNull<c::ibv_mr>,
    /// Always there until `drop`.
    memory: Option<MmapRaw>,
    /// Held while one of our threads copies. What the device does meanwhile is not our race: copies are volatile.
    copying: Mutex<()>,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs may be called from any thread; the memory is touched by one of our threads at a time (`copying`);
// the keys that we read do not change.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: nobody else holds the region.
        if unsafe { (self.domain.symbols().ibv_dereg_mr)(self.pointer.as_ptr()) } != 0 {
            // The device may still write there: the memory must never serve anything else.
            std::mem::forget(self.memory.take());
        }
    }
}

impl MemoryRegion {
    /// Copies `length` bytes out, from `offset` on.
    ///
    /// The device may write at the same time: then each byte is one that was there at some moment of the call. Aligned
    /// groups of eight bytes are read at once.
    ///
    /// # Errors
    ///
    /// [`VerbsError::OutOfRegion`].
    pub fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, VerbsError> {
        let from = self.place(offset, length)?;
        let mut bytes = vec![0_u8; length];
        let _copying = self.inner.copying.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < length {
            let at = from.wrapping_add(done);
            // SAFETY: inside the mapping, which lives as long as the region; aligned where eight are read.
            unsafe {
                if at.addr() % 8 == 0 && length - done >= 8 {
                    let word = at.cast::<u64>().read_volatile();
                    bytes[done..done + 8].copy_from_slice(&word.to_ne_bytes());
                    done += 8;
                } else {
                    bytes[done] = at.read_volatile();
                    done += 1;
                }
            }
        }
        Ok(bytes)
    }

    /// Copies `bytes` in, from `offset` on. Aligned groups of eight bytes are written at once.
    ///
    /// # Errors
    ///
    /// [`VerbsError::OutOfRegion`]; then nothing was written.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), VerbsError> {
        let to = self.place(offset, bytes.len())?;
        let _copying = self.inner.copying.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < bytes.len() {
            let at = to.wrapping_add(done);
            // SAFETY: as in `read`.
            unsafe {
                match bytes[done..].first_chunk::<8>() {
                    Some(group) if at.addr() % 8 == 0 => {
                        at.cast::<u64>().write_volatile(u64::from_ne_bytes(*group));
                        done += 8;
                    }
                    _ => {
                        at.write_volatile(bytes[done]);
                        done += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// The address by which the device, and a remote side, knows the first byte.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.base().addr() as u64
    }

    /// Local key.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is registered.
        unsafe { self.inner.pointer.as_ref().lkey }
    }

    /// Remote key.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is registered.
        unsafe { self.inner.pointer.as_ref().rkey }
    }

    /// A piece of it for a work request. Whether it lies inside is checked when it is posted.
    #[must_use]
    pub fn segment(&self, offset: usize, length: u32) -> Segment {
        Segment {
            region: self.clone(),
            offset,
            length,
        }
    }

    /// Where `offset` is, after checking that `length` bytes from there are inside.
    pub(super) fn place(&self, offset: usize, length: usize) -> Result<*mut u8, VerbsError> {
        let size = self.inner.memory.as_ref().map_or(0, MmapRaw::len);
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(VerbsError::OutOfRegion { offset, length, size });
        }
        Ok(self.base().wrapping_add(offset))
    }

    fn base(&self) -> *mut u8 {
        self.inner.memory.as_ref().map_or(ptr::null_mut(), MmapRaw::as_mut_ptr)
    }
}

/// Pages of zeroes from the system.
fn map(length: usize) -> io::Result<MmapRaw> {
    let memory = MmapRaw::from(MmapMut::map_anon(length)?);
    // A child process must not share these pages: copy-on-write could give the device's pages to the child. A kernel
    // that does not know the advice copies them right at the fork, so a refusal does no harm.
    let _ = memory.advise(Advice::DontFork);
    Ok(memory)
}

/// An address handle: where datagrams of an unreliable queue pair go.
///
/// Cheap to clone; a work request that was posted with it keeps it.
#[derive(Clone, Debug)]
pub struct AddressHandle {
    inner: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    pointer: NonNull<c::ibv_ah>,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs may be called from any thread with the same address handle; we read none of its fields.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nobody else holds it.
        unsafe { (self.domain.symbols().ibv_destroy_ah)(self.pointer.as_ptr()) };
    }
}

impl AddressHandle {
    pub(super) fn pointer(&self) -> *mut c::ibv_ah {
        self.inner.pointer.as_ptr()
    }

    pub(super) fn context(&self) -> &Context {
        self.inner.domain.context()
    }
}
