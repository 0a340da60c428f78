// SPDX-License-Identifier: GPL-2.0
//! One host's PCI function as a vfio-user device: what each request of the client does.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::libc::{EINVAL, EIO, ENOSPC, ENOTSUP};

use super::config::ConfigSpace;
use super::engine::Engine;
use super::irq::Vectors;
use super::log::Log;
use super::memory::GuestMemory;
use super::window::{self, Window};
use super::wire::{self, Request};
use crate::core::pci::{CONFIG_SIZE, MSIX_BAR, MSIX_BAR_SIZE};
use crate::core::{Fabric, HostId, BAR0_SIZE, MSIX_VECTORS};

/// Region numbers of a VFIO PCI device: six BARs, the ROM, config space, VGA.
const NUM_REGIONS: u32 = 9;
const REGION_BAR0: u32 = 0;
const REGION_MSIX: u32 = MSIX_BAR as u32;
const REGION_CONFIG: u32 = 7;
/// Interrupt kinds of a VFIO PCI device: INTx, MSI, MSI-X, error, request.
const NUM_IRQS: u32 = 5;
const IRQ_INTX: u32 = 0;
const IRQ_MSIX: u32 = 2;
const IRQ_ERROR: u32 = 3;

/// What one host has for its client.
pub struct Device {
    /// Name of the host, for the log.
    pub name: String,
    /// The host in the model.
    pub host: HostId,
    /// The model.
    pub engine: Arc<Engine>,
    /// Where the client's DMA mappings go.
    pub memory: Arc<GuestMemory>,
    /// Where its eventfds go.
    pub vectors: Arc<Vectors>,
    /// The index pages, in sparse mode.
    pub window: Option<Arc<Window>>,
    /// PCI config space.
    pub config: ConfigSpace,
    /// The log.
    pub log: Arc<Log>,
    /// Stray accesses that the log has already.
    pub strays_logged: usize,
}

/// A reply: the body, the file to attach, and whether the access may have made work for the model.
#[derive(Default)]
pub struct Reply {
    /// What follows the header.
    pub body: Vec<u8>,
    /// A file that the client is to map.
    pub file: Option<Arc<Window>>,
    /// Whether [`Engine::settle`] should follow the reply.
    pub settle: bool,
}

impl Reply {
    fn body(body: Vec<u8>) -> Self {
        Reply { body, ..Reply::default() }
    }
}

impl Device {
    /// Does what the client asks. An error is the errno to refuse the request with.
    pub fn handle(&mut self, request: Request<'_>, files: Vec<OwnedFd>) -> Result<Reply, i32> {
        match request {
            Request::Version { major: 0, .. } => Ok(Reply::body(wire::version_body())),
            Request::Version { .. } => Err(ENOTSUP),
            Request::DmaMap { offset, address, size } => self.dma_map(offset, address, size, files),
            Request::DmaUnmap { flags, address, size, body } => {
                self.dma_unmap(flags, address, size);
                Ok(Reply::body(body.to_vec()))
            }
            Request::DeviceInfo => Ok(Reply::body(wire::device_info_body(NUM_REGIONS, NUM_IRQS))),
            Request::RegionInfo { argsz, index } => self.region_info(argsz, index),
            Request::IrqInfo { index } => Self::irq_info(index),
            Request::SetIrqs { flags, index, start, count } => {
                self.set_irqs(flags, index, start, count, files)
            }
            Request::RegionRead { offset, region, count } => {
                self.region_read(region, offset, count)
            }
            Request::RegionWrite { offset, region, data } => {
                self.region_write(region, offset, data)
            }
            Request::Reset => {
                self.log.line(&self.name, "device reset");
                self.reset();
                Ok(Reply { settle: true, ..Reply::default() })
            }
            Request::Unsupported => Err(ENOTSUP),
        }
    }

    /// The client is gone: nothing of it may be touched any more.
    pub fn client_gone(&mut self) {
        self.reset();
        self.engine.with(|_, _| self.memory.unmap_all());
        self.vectors.disable();
        self.vectors.forget();
    }

    /// The function's reset: registers, rings, config space. DMA mappings and eventfds stay the client's.
    fn reset(&mut self) {
        self.engine.with(|fabric, now| fabric.host_reset(self.host, now));
        self.vectors.forget();
        self.config.reset();
    }

    fn dma_map(
        &self,
        offset: u64,
        address: u64,
        size: u64,
        mut files: Vec<OwnedFd>,
    ) -> Result<Reply, i32> {
        let file = files.pop();
        let with_file = if file.is_some() { "" } else { " (without a file)" };
        self.log.line(&self.name, &format!("map {address:#x} + {size:#x}{with_file}"));
        let mapped = self.engine.with(|_, _| self.memory.map(address, size, file, offset));
        mapped.map(|()| Reply::default()).map_err(|error| {
            self.log.line(&self.name, &format!("map refused: {error}"));
            match error.kind() {
                std::io::ErrorKind::StorageFull => ENOSPC,
                _ => EINVAL,
            }
        })
    }

    /// Under the engine's lock, so that no DMA to the range is under way or can begin once this returns.
    fn dma_unmap(&self, flags: u32, address: u64, size: u64) {
        self.engine.with(|_, _| match flags & wire::UNMAP_ALL {
            0 => self.memory.unmap(address, size),
            _ => self.memory.unmap_all(),
        });
    }

    fn region_info(&self, argsz: u32, index: u32) -> Result<Reply, i32> {
        let access = wire::REGION_READ | wire::REGION_WRITE;
        let (flags, size) = match index {
            REGION_BAR0 => (access, u64::from(BAR0_SIZE)),
            REGION_MSIX => (access, u64::from(MSIX_BAR_SIZE)),
            REGION_CONFIG => (access, CONFIG_SIZE as u64),
            _ if index < NUM_REGIONS => (0, 0),
            _ => return Err(EINVAL),
        };
        let window = self.window.as_ref().filter(|_| index == REGION_BAR0);
        let areas: &[(u64, u64)] = if window.is_some() { &window::AREAS } else { &[] };
        let (body, with_areas) = wire::region_info_body(argsz, index, flags, size, areas);
        let file = window.filter(|_| with_areas).cloned();
        Ok(Reply { body, file, settle: false })
    }

    fn irq_info(index: u32) -> Result<Reply, i32> {
        let (flags, count) = match index {
            IRQ_INTX => (wire::IRQ_EVENTFD | wire::IRQ_MASKABLE | wire::IRQ_AUTOMASKED, 1),
            // Without NORESIZE: QEMU then leaves the other vectors alone when it adds one.
            IRQ_MSIX => (wire::IRQ_EVENTFD, u32::from(MSIX_VECTORS)),
            IRQ_ERROR => (wire::IRQ_EVENTFD, 1),
            _ if index < NUM_IRQS => (wire::IRQ_EVENTFD, 0),
            _ => return Err(EINVAL),
        };
        Ok(Reply::body(wire::irq_info_body(flags, index, count)))
    }

    /// INTx and the error interrupt can be set up, as QEMU does at its start, and are never raised.
    fn set_irqs(
        &self,
        flags: u32,
        index: u32,
        start: u32,
        count: u32,
        files: Vec<OwnedFd>,
    ) -> Result<Reply, i32> {
        match index {
            IRQ_MSIX => {}
            IRQ_INTX | IRQ_ERROR if start.saturating_add(count) <= 1 => return Ok(Reply::default()),
            _ if index < NUM_IRQS && count == 0 => return Ok(Reply::default()),
            _ => return Err(EINVAL),
        }
        let trigger = flags & wire::IRQ_SET_ACTION_TRIGGER != 0;
        if trigger && flags & wire::IRQ_SET_DATA_NONE != 0 && count == 0 {
            self.vectors.disable();
            return Ok(Reply::default());
        }
        let with_eventfds = trigger && flags & wire::IRQ_SET_DATA_EVENTFD != 0;
        let done = with_eventfds && self.vectors.assign(start, count, files);
        done.then(Reply::default).ok_or(EINVAL)
    }

    fn region_read(&mut self, region: u32, offset: u64, count: u32) -> Result<Reply, i32> {
        let data = match region {
            REGION_BAR0 => self.bar0_read(offset, count as usize)?,
            // QEMU serves the MSI-X table itself.
            REGION_MSIX => vec![0; count as usize],
            REGION_CONFIG => self.config.read(offset, count as usize).ok_or(EINVAL)?.to_vec(),
            _ => return Err(EINVAL),
        };
        Ok(Reply::body(wire::region_access_body(offset, region, count, &data)))
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<Reply, i32> {
        match region {
            REGION_BAR0 => self.bar0_write(offset, data)?,
            REGION_MSIX => {}
            REGION_CONFIG => self.config.write(offset, data).ok_or(EINVAL)?,
            _ => return Err(EINVAL),
        }
        let body = wire::region_access_body(offset, region, data.len() as u32, &[]);
        Ok(Reply { body, file: None, settle: region == REGION_BAR0 })
    }

    /// The BAR's offset of an access that is made of whole, aligned dwords: the only kind that the
    /// hardware's driver makes.
    fn bar0_offset(offset: u64, len: usize) -> Result<u32, i32> {
        let end = offset.checked_add(len as u64).ok_or(EINVAL)?;
        let legal = end <= u64::from(BAR0_SIZE) && offset % 4 == 0 && len % 4 == 0;
        legal.then_some(offset as u32).ok_or(EIO)
    }

    fn bar0_read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, i32> {
        let offset = Self::bar0_offset(offset, len)?;
        Ok(self.access(|fabric, host, now| {
            let dwords = (0..len as u32).step_by(4);
            dwords.flat_map(|at| fabric.mmio_read(host, offset + at, now).to_le_bytes()).collect()
        }))
    }

    fn bar0_write(&mut self, offset: u64, data: &[u8]) -> Result<(), i32> {
        let offset = Self::bar0_offset(offset, data.len())?;
        self.access(|fabric, host, now| {
            for (at, dword) in (0..).step_by(4).zip(data.chunks_exact(4)) {
                let value = u32::from_le_bytes(dword.try_into().expect("chunks of four"));
                fabric.mmio_write(host, offset + at, value, now);
            }
        });
        Ok(())
    }

    /// Does a register access, and logs it if it hit no register.
    fn access<T>(&mut self, act: impl FnOnce(&mut Fabric, HostId, u64) -> T) -> T {
        let (result, strays) = self.engine.with(|fabric, now| {
            let result = act(fabric, self.host, now);
            let strays = fabric.stray_accesses(self.host).get(self.strays_logged..);
            (result, strays.map_or_else(Vec::new, <[_]>::to_vec))
        });
        self.strays_logged += strays.len();
        for stray in strays {
            let what = match stray.written {
                Some(value) => format!("write of {value:#010x} to"),
                None => "read of".into(),
            };
            self.log.line(&self.name, &format!("{what} {:#07x} hit no register", stray.offset));
        }
        result
    }
}
