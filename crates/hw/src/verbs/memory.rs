//! Protection domains, registered memory and address handles.
//!
//! A remote side may write into registered memory at any time, and the device under test may misbehave. This module
//! therefore lends no slice of the memory: [`MemoryRegion::read`] and [`MemoryRegion::write`] copy.

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

/// A protection domain: memory and queue pairs work together only within one domain.
///
/// Cheap to clone. It is freed with the last clone and the last object made from it.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    inner: Arc<Domain>,
}

#[derive(Debug)]
struct Domain {
    pointer: NonNull<c::ibv_pd>,
    context: Context,
}

// SAFETY: libibverbs may be called from any thread with the same protection domain; no field of it is read here.
unsafe impl Send for Domain {}
// SAFETY: as for Send.
unsafe impl Sync for Domain {}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: every object made from it holds an Arc of this, so none exists any more; the context is still open.
        unsafe { (self.context.inner.symbols().ibv_dealloc_pd)(self.pointer.as_ptr()) };
    }
}

impl Context {
    /// Allocates a protection domain.
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
    /// Allocates `length` zeroed bytes at a page boundary and registers them.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Argument`] for a length of 0, [`VerbsError::Call`] when memory is short or may not be locked.
    pub fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, VerbsError> {
        let device = &self.context().inner;
        if length == 0 {
            return Err(device.argument("ibv_reg_mr", "a memory region of 0 bytes: expected at least 1"));
        }
        let memory = map(length).map_err(|seen| device.failed("mmap", &format!("{length} bytes"), seen))?;
        let flags = access_flags(access).cast_signed();
        // SAFETY: the domain exists; the memory is ours and stays mapped until the region is dropped, see
        // `Region::drop`.
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

    /// Creates an address handle: the destination of UD datagrams, which leave through the local port `port`.
    ///
    /// # Errors
    ///
    /// [`VerbsError::Call`]; on Ethernet also when the GID cannot be resolved to a MAC address.
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

    /// Creates a queue pair in state RESET, whose completions go into `queue`. Its queues hold `send_depth` and
    /// `receive_depth` requests of one segment each. Its packets leave through the local port `port`.
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

/// A region of registered memory, which begins at a page boundary. The handle owns the memory.
///
/// Cheap to clone. The region is deregistered when the last clone is dropped and no outstanding work request uses it.
/// See [`QueuePair`] for when a work request stops being outstanding.
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    inner: Arc<Region>,
}

#[derive(Debug)]
struct Region {
    pointer: NonNull<c::ibv_mr>,
    /// `Some` until `drop`.
    memory: Option<MmapRaw>,
    /// Locked while a thread of this process copies. The device may write at the same time, so the copies are volatile.
    copying: Mutex<()>,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs may be called from any thread, and the keys read here do not change. Only one thread of this
// process accesses the memory at a time (`copying`).
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: no other code holds the region.
        if unsafe { (self.domain.symbols().ibv_dereg_mr)(self.pointer.as_ptr()) } != 0 {
            // The device may still write there, so this memory must not be reused.
            std::mem::forget(self.memory.take());
        }
    }
}

impl MemoryRegion {
    /// Copies `length` bytes from the region, beginning at `offset`.
    ///
    /// If the device writes at the same time, each returned byte is a value that the memory had at some time during the
    /// call. Aligned groups of eight bytes are read with a single access.
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
            // SAFETY: the address is inside the mapping, which lives as long as the region; it is aligned where eight
            // bytes are read.
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

    /// Copies `bytes` into the region, beginning at `offset`. Aligned groups of eight bytes are written with a single
    /// access.
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

    /// Returns the address of the first byte, as the device and a remote side use it.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.base().addr() as u64
    }

    /// Returns the L_Key.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is registered.
        unsafe { self.inner.pointer.as_ref().lkey }
    }

    /// Returns the R_Key.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is registered.
        unsafe { self.inner.pointer.as_ref().rkey }
    }

    /// Returns a segment of the region for a work request. Posting the request checks that the segment lies inside the
    /// region.
    #[must_use]
    pub fn segment(&self, offset: usize, length: u32) -> Segment {
        Segment {
            region: self.clone(),
            offset,
            length,
        }
    }

    /// Returns the address at `offset`, after a check that the `length` bytes from there are inside the region.
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

/// Maps zeroed pages.
fn map(length: usize) -> io::Result<MmapRaw> {
    let memory = MmapRaw::from(MmapMut::map_anon(length)?);
    // A child process must not share these pages: copy-on-write could give the device's pages to the child. A kernel
    // without this advice copies the pages at the fork, so a refusal does no harm.
    let _ = memory.advise(Advice::DontFork);
    Ok(memory)
}

/// An address handle: the destination of UD datagrams.
///
/// Cheap to clone. A posted work request keeps its address handle alive.
#[derive(Clone, Debug)]
pub struct AddressHandle {
    inner: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    pointer: NonNull<c::ibv_ah>,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs may be called from any thread with the same address handle; no field of it is read here.
unsafe impl Send for Handle {}
// SAFETY: as for Send.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no other code holds it.
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
