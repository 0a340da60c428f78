// SPDX-License-Identifier: GPL-2.0

//! Registrations with the thunderbolt core: the service driver, the properties
//! that tell other hosts of our service, and the handler of control messages.

use super::bindings;
use super::tb_xdomain::Xdomain;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::Arc;
use kernel::types::Opaque;

/// What a service driver does when the core calls it. All in process context.
pub(crate) trait ServiceDriver: Send + Sync + 'static {
    /// What all devices of the driver share.
    type Shared: Send + Sync;

    /// The other host offers our service, too.
    ///
    /// # Errors
    ///
    /// Whatever keeps the driver from binding.
    fn probe(shared: &Arc<Self::Shared>, xd: Xdomain) -> Result<Arc<Self>>;
    /// The service, the cable or this driver goes away.
    fn remove(&self);
    /// The system goes to sleep.
    fn suspend(&self);
    /// The system has woken up.
    fn resume(&self);
}

/// What the driver core holds: the driver comes first, so it leads to the rest.
#[repr(C)]
struct Registered<S> {
    driver: Opaque<bindings::tb_service_driver>,
    power: Opaque<bindings::dev_pm_ops>,
    shared: Arc<S>,
}

/// A registered service driver. Dropping it removes all its devices first.
pub(crate) struct ServiceRegistration<T: ServiceDriver>(Pin<KBox<Registered<T::Shared>>>);

// SAFETY: only registered and unregistered, by its one owner.
unsafe impl<T: ServiceDriver> Send for ServiceRegistration<T> {}
// SAFETY: as above; shared references only ask whether there is a domain.
unsafe impl<T: ServiceDriver> Sync for ServiceRegistration<T> {}

impl<T: ServiceDriver> ServiceRegistration<T> {
    /// Registers `T` for the services of params.c's table.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the driver core says.
    pub(crate) fn new(
        name: &'static CStr,
        module: &'static ThisModule,
        shared: Arc<T::Shared>,
    ) -> Result<Self> {
        let this = KBox::pin(
            Registered {
                driver: Opaque::<bindings::tb_service_driver>::zeroed(),
                power: Opaque::<bindings::dev_pm_ops>::zeroed(),
                shared,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: ours alone until it is registered; the box is pinned, and freed
        // only after unregistering.
        unsafe {
            let power = &mut *this.power.get();
            power.suspend = Some(suspend::<T>);
            power.resume = Some(resume::<T>);
            power.freeze = Some(suspend::<T>);
            power.thaw = Some(resume::<T>);
            power.poweroff = Some(suspend::<T>);
            power.restore = Some(resume::<T>);
            let driver = &mut *this.driver.get();
            driver.driver.name = name.as_char_ptr();
            driver.driver.owner = module.as_ptr();
            driver.driver.pm = this.power.get();
            driver.probe = Some(probe::<T>);
            driver.remove = Some(remove::<T>);
            driver.shutdown = Some(shutdown::<T>);
            driver.id_table = (&raw const bindings::u4r_service_ids).cast();
        }
        // SAFETY: filled in above.
        let ret = unsafe { bindings::tb_register_service_driver(this.driver.get()) };
        kernel::error::to_result(ret)?;
        Ok(Self(this))
    }

    /// Does this machine have a host router with a driver?
    pub(crate) fn domain_present(&self) -> bool {
        // SAFETY: registered, so it has a bus.
        unsafe { bindings::u4r_domain_present(self.0.driver.get()) }
    }
}

impl<T: ServiceDriver> Drop for ServiceRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: registered; returns when `remove` has run for every device.
        unsafe { bindings::tb_unregister_service_driver(self.0.driver.get()) };
    }
}

/// # Safety
///
/// Called by the core with a live service.
unsafe extern "C" fn probe<T: ServiceDriver>(service: *mut bindings::tb_service) -> c_int {
    // SAFETY: live, see above; its driver is the first member of a `Registered`.
    let (xd, shared) = unsafe {
        let registered = (*service).dev.driver.cast::<Registered<T::Shared>>();
        (Xdomain::of_service(service), &(*registered).shared)
    };
    match xd.and_then(|xd| T::probe(shared, xd)) {
        Ok(data) => {
            // SAFETY: our device until `remove`, which takes the reference back.
            unsafe {
                bindings::dev_set_drvdata(&raw mut (*service).dev, data.into_raw() as *mut c_void)
            };
            0
        }
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// `device` is bound to us: its driver data are those of `probe`.
unsafe fn data<'a, T>(device: *mut bindings::device) -> Option<&'a T> {
    // SAFETY: see above.
    unsafe { bindings::dev_get_drvdata(device).cast::<T>().as_ref() }
}

/// # Safety
///
/// Called by the core with a service that `probe` has accepted.
unsafe extern "C" fn remove<T: ServiceDriver>(service: *mut bindings::tb_service) {
    // SAFETY: bound until we return.
    unsafe {
        let device = &raw mut (*service).dev;
        let raw = bindings::dev_get_drvdata(device).cast::<T>();
        if let Some(driver) = raw.as_ref() {
            driver.remove();
            bindings::dev_set_drvdata(device, core::ptr::null_mut());
            drop(Arc::from_raw(raw.cast_const()));
        }
    }
}

/// # Safety
///
/// Called by the core with a bound service.
unsafe extern "C" fn shutdown<T: ServiceDriver>(service: *mut bindings::tb_service) {
    // SAFETY: bound.
    if let Some(driver) = unsafe { data::<T>(&raw mut (*service).dev) } {
        driver.suspend();
    }
}

/// # Safety
///
/// Called by the core with a bound service's device.
unsafe extern "C" fn suspend<T: ServiceDriver>(device: *mut bindings::device) -> c_int {
    // SAFETY: bound.
    if let Some(driver) = unsafe { data::<T>(device) } {
        driver.suspend();
    }
    0
}

/// # Safety
///
/// Called by the core with a bound service's device.
unsafe extern "C" fn resume<T: ServiceDriver>(device: *mut bindings::device) -> c_int {
    // SAFETY: bound.
    if let Some(driver) = unsafe { data::<T>(device) } {
        driver.resume();
    }
    0
}

/// The properties of our service, shown to other hosts while this exists.
pub(crate) struct Properties {
    key: &'static CStr,
    dir: NonNull<bindings::tb_property_dir>,
}

// SAFETY: the core locks its directories.
unsafe impl Send for Properties {}
// SAFETY: as above.
unsafe impl Sync for Properties {}

impl Properties {
    /// Publishes a directory under `key` (at most 8 characters).
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    pub(crate) fn new(key: &'static CStr, uuid: &Uuid, version: u32, caps: u32) -> Result<Self> {
        // SAFETY: the core copies the UUID.
        let dir = unsafe { bindings::u4r_properties(uuid.as_ptr(), version, caps) };
        let dir = NonNull::new(dir).ok_or(ENOMEM)?;
        // SAFETY: a directory of ours.
        let ret = unsafe { bindings::tb_register_property_dir(key.as_char_ptr(), dir.as_ptr()) };
        if ret != 0 {
            // SAFETY: not registered.
            unsafe { bindings::tb_property_free_dir(dir.as_ptr()) };
            return Err(Error::from_errno(ret));
        }
        Ok(Self { key, dir })
    }
}

impl Drop for Properties {
    fn drop(&mut self) {
        // SAFETY: registered in `new`. The core frees a directory that it removes.
        unsafe { bindings::tb_unregister_property_dir(self.key.as_char_ptr(), self.dir.as_ptr()) };
    }
}

/// A UUID in the byte order of the kernel's `uuid_t`.
pub(crate) struct Uuid(pub(crate) [u8; 16]);

impl Uuid {
    fn as_ptr(&self) -> *const bindings::uuid_t {
        (&raw const self.0).cast()
    }
}

/// Receives the control messages of one protocol.
pub(crate) trait MessageSink: Send + Sync + 'static {
    /// A message from some host; its content is not to be trusted. Must not sleep.
    fn message(&self, words: &[u8]);
}

/// What the core holds: the handler comes first, so it leads to the rest.
#[repr(C)]
struct Handler<T> {
    raw: Opaque<bindings::tb_protocol_handler>,
    sink: Arc<T>,
    /// Callbacks under way.
    running: Atomic<u32>,
}

/// A registered handler. Dropping it waits until no callback can run.
pub(crate) struct ProtocolHandler<T: MessageSink>(Pin<KBox<Handler<T>>>);

// SAFETY: the core locks its list; the sink is shared.
unsafe impl<T: MessageSink> Send for ProtocolHandler<T> {}
// SAFETY: as above.
unsafe impl<T: MessageSink> Sync for ProtocolHandler<T> {}

impl<T: MessageSink> ProtocolHandler<T> {
    /// Registers `sink` for messages of protocol `uuid`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`.
    pub(crate) fn new(uuid: &'static Uuid, sink: Arc<T>) -> Result<Self> {
        let handler = KBox::pin(
            Handler {
                raw: Opaque::<bindings::tb_protocol_handler>::zeroed(),
                sink,
                running: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: ours alone until it is registered; pinned, and freed only after
        // it was unregistered and no callback runs.
        let ret = unsafe {
            let raw = &mut *handler.raw.get();
            raw.uuid = uuid.as_ptr();
            raw.callback = Some(message::<T>);
            raw.data = (&raw const *handler).cast_mut().cast();
            bindings::tb_register_protocol_handler(handler.raw.get())
        };
        kernel::error::to_result(ret)?;
        Ok(Self(handler))
    }
}

impl<T: MessageSink> Drop for ProtocolHandler<T> {
    fn drop(&mut self) {
        // SAFETY: registered in `new`. The core does not wait for a callback that it
        // chose just before: after the first wait such a one is counted, after the
        // second it has left our code.
        unsafe {
            bindings::tb_unregister_protocol_handler(self.0.raw.get());
            bindings::u4r_quiesce_callbacks();
        }
        while self.0.running.load(Acquire) != 0 {
            kernel::time::delay::fsleep(kernel::time::Delta::from_millis(1));
        }
        // SAFETY: callable in process context.
        unsafe { bindings::u4r_quiesce_callbacks() };
    }
}

/// # Safety
///
/// Called by the core for the handler of a `Handler<T>`.
unsafe extern "C" fn message<T: MessageSink>(
    buffer: *const c_void,
    size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the handler lives until no callback runs.
    let handler = unsafe { &*data.cast::<Handler<T>>() };
    handler.running.fetch_add(1, Relaxed);
    // SAFETY: the core's buffer has this size.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), size) };
    handler.sink.message(bytes);
    handler.running.fetch_sub(1, Release);
    1
}
