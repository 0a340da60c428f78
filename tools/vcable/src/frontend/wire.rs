// SPDX-License-Identifier: GPL-2.0
//! The messages of vfio-user, as bytes.
//!
//! Source: the vfio-user specification of QEMU (`docs/interop/vfio-user.rst`) and the structures of
//! Linux's `include/uapi/linux/vfio.h` that it carries. Every field is little-endian, because both
//! ends are on one x86-64 machine. Requests are parsed once, here; a request that does not fit its
//! declared size is an error of that request and never of the stream.

/// Bytes of the header that each message begins with.
pub const HEADER_BYTES: usize = 16;
/// Longest message accepted, in bytes. QEMU's longest is a region write of a few bytes; the
/// specification's default of 1 MiB of data per transfer is what is announced.
pub const MAX_MESSAGE_BYTES: usize = MAX_TRANSFER_BYTES + 4096;
/// Longest data part of a region access, in bytes, as announced to the client.
pub const MAX_TRANSFER_BYTES: usize = 1 << 20;
/// Most file descriptors that one message may carry, as announced to the client.
pub const MAX_FDS: usize = 16;

const FLAG_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;
const TYPE_MASK: u32 = 0xf;

/// Device flags of `VFIO_DEVICE_GET_INFO`: can be reset, is a PCI function.
pub const DEVICE_FLAGS: u32 = 1 | 2;
/// Region flags: readable, writable, can be mapped, has capabilities.
pub const REGION_READ: u32 = 1;
/// See [`REGION_READ`].
pub const REGION_WRITE: u32 = 2;
/// See [`REGION_READ`].
pub const REGION_MMAP: u32 = 4;
/// See [`REGION_READ`].
pub const REGION_CAPS: u32 = 8;
/// Interrupt flag: signalled through an eventfd.
pub const IRQ_EVENTFD: u32 = 1;
/// Interrupt flag: can be masked.
pub const IRQ_MASKABLE: u32 = 2;
/// Interrupt flag: masks itself when it is raised.
pub const IRQ_AUTOMASKED: u32 = 4;
/// `VFIO_IRQ_SET` flag: no data follows.
pub const IRQ_SET_DATA_NONE: u32 = 1;
/// `VFIO_IRQ_SET` flag: file descriptors are attached.
pub const IRQ_SET_DATA_EVENTFD: u32 = 4;
/// `VFIO_IRQ_SET` flag: the action is the trigger.
pub const IRQ_SET_ACTION_TRIGGER: u32 = 32;
/// `VFIO_USER_DMA_UNMAP` flag: all mappings.
pub const UNMAP_ALL: u32 = 1 << 2;

/// A message's first 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender, echoed in the reply.
    pub id: u16,
    /// Number of the command.
    pub command: u16,
    /// Length of the message in bytes, with this header.
    pub size: u32,
    /// Whether the sender wants no reply.
    pub no_reply: bool,
    /// Whether this is a reply rather than a command.
    pub is_reply: bool,
}

impl Header {
    /// Reads a header; `None` if its size cannot be that of a message, in which case nothing more can
    /// be read from the stream.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let mut fields = Fields::new(bytes);
        let (id, command) = (fields.u16()?, fields.u16()?);
        let (size, flags) = (fields.u32()?, fields.u32()?);
        let legal = HEADER_BYTES..=MAX_MESSAGE_BYTES;
        legal.contains(&(size as usize)).then_some(Header {
            id,
            command,
            size,
            no_reply: flags & FLAG_NO_REPLY != 0,
            is_reply: flags & TYPE_MASK != 0,
        })
    }

    /// A successful reply to this command, with `body` after the header.
    pub fn reply(&self, body: &[u8]) -> Vec<u8> {
        self.answer(FLAG_REPLY, 0, body)
    }

    /// A reply that refuses this command with the positive number `errno`.
    pub fn error(&self, errno: i32) -> Vec<u8> {
        self.answer(FLAG_REPLY | FLAG_ERROR, errno.unsigned_abs(), &[])
    }

    fn answer(&self, flags: u32, errno: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.command.to_le_bytes());
        out.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&errno.to_le_bytes());
        out.extend_from_slice(body);
        out
    }
}

/// A command of the client, checked against its own length.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Version negotiation, with the client's major and minor number.
    Version { major: u16, minor: u16 },
    /// Guest memory of `size` bytes at bus address `address`, from `offset` in the attached file.
    DmaMap { offset: u64, address: u64, size: u64 },
    /// Ends the mappings inside the range, or all of them; `body` is echoed in the reply.
    DmaUnmap { flags: u32, address: u64, size: u64, body: &'a [u8] },
    /// The numbers of regions and interrupt kinds.
    DeviceInfo,
    /// One region's properties; `argsz` is the room the client has for them.
    RegionInfo { argsz: u32, index: u32 },
    /// One interrupt kind's properties.
    IrqInfo { index: u32 },
    /// Sets, clears or triggers vectors.
    SetIrqs { flags: u32, index: u32, start: u32, count: u32 },
    /// Reads `count` bytes.
    RegionRead { offset: u64, region: u32, count: u32 },
    /// Writes `data`.
    RegionWrite { offset: u64, region: u32, data: &'a [u8] },
    /// A reset of the function.
    Reset,
    /// Anything else; it has been read in whole and can be refused.
    Unsupported,
}

impl<'a> Request<'a> {
    /// Parses the `body` that follows a header with this `command`; `None` if it is too short or says
    /// of itself what it does not hold.
    pub fn parse(command: u16, body: &'a [u8]) -> Option<Request<'a>> {
        let mut fields = Fields::new(body);
        Some(match command {
            1 => Request::Version { major: fields.u16()?, minor: fields.u16()? },
            2 => {
                let (_argsz, _flags) = (fields.u32()?, fields.u32()?);
                Request::DmaMap {
                    offset: fields.u64()?,
                    address: fields.u64()?,
                    size: fields.u64()?,
                }
            }
            3 => {
                let (_argsz, flags) = (fields.u32()?, fields.u32()?);
                let (address, size) = (fields.u64()?, fields.u64()?);
                Request::DmaUnmap { flags, address, size, body: body.get(..24)? }
            }
            4 => Request::DeviceInfo,
            5 => {
                let (argsz, _flags) = (fields.u32()?, fields.u32()?);
                Request::RegionInfo { argsz, index: fields.u32()? }
            }
            7 => {
                let (_argsz, _flags) = (fields.u32()?, fields.u32()?);
                Request::IrqInfo { index: fields.u32()? }
            }
            8 => {
                let (_argsz, flags) = (fields.u32()?, fields.u32()?);
                Request::SetIrqs {
                    flags,
                    index: fields.u32()?,
                    start: fields.u32()?,
                    count: fields.u32()?,
                }
            }
            9 => {
                let (offset, region, count) = (fields.u64()?, fields.u32()?, fields.u32()?);
                (count as usize <= MAX_TRANSFER_BYTES).then_some(())?;
                Request::RegionRead { offset, region, count }
            }
            10 => {
                let (offset, region, count) = (fields.u64()?, fields.u32()?, fields.u32()?);
                Request::RegionWrite { offset, region, data: fields.rest.get(..count as usize)? }
            }
            13 => Request::Reset,
            _ => Request::Unsupported,
        })
    }
}

/// The body of the version reply: the protocol version 0.0 and this server's limits.
pub fn version_body() -> Vec<u8> {
    let capabilities = format!(
        "{{\"capabilities\":{{\"max_msg_fds\":{MAX_FDS},\"max_data_xfer_size\":{MAX_TRANSFER_BYTES}}}}}\0"
    );
    let mut body = vec![0; 4];
    body.extend_from_slice(capabilities.as_bytes());
    body
}

/// The body of a device-info reply.
pub fn device_info_body(num_regions: u32, num_irqs: u32) -> Vec<u8> {
    words(&[16, DEVICE_FLAGS, num_regions, num_irqs])
}

/// The body of an interrupt-info reply.
pub fn irq_info_body(flags: u32, index: u32, count: u32) -> Vec<u8> {
    words(&[16, flags, index, count])
}

/// The body of a region-access reply, with the data of a read.
pub fn region_access_body(offset: u64, region: u32, count: u32, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(16 + data.len());
    body.extend_from_slice(&offset.to_le_bytes());
    body.extend_from_slice(&words(&[region, count]));
    body.extend_from_slice(data);
    body
}

/// The body of a region-info reply, with the areas `(offset, size)` that may be mapped. When the
/// client's `argsz` has no room for the areas, they are left out and the room needed is said, as the
/// kernel's VFIO does; the second value tells whether they are in.
pub fn region_info_body(
    argsz: u32,
    index: u32,
    flags: u32,
    size: u64,
    areas: &[(u64, u64)],
) -> (Vec<u8>, bool) {
    const FIXED_BYTES: u32 = 32;
    const SPARSE_MMAP: u32 = 1;
    const CAP_VERSION: u32 = 1;
    let cap_bytes = if areas.is_empty() { 0 } else { 16 + 16 * areas.len() as u32 };
    let with_areas = cap_bytes != 0 && argsz >= FIXED_BYTES + cap_bytes;
    let (flags, cap_offset) = match cap_bytes {
        0 => (flags, 0),
        _ => (flags | REGION_MMAP | REGION_CAPS, FIXED_BYTES),
    };
    let mut body = words(&[FIXED_BYTES + cap_bytes, flags, index, cap_offset]);
    body.extend_from_slice(&size.to_le_bytes());
    body.extend_from_slice(&0u64.to_le_bytes());
    if with_areas {
        body.extend_from_slice(&words(&[
            SPARSE_MMAP | CAP_VERSION << 16,
            0,
            areas.len() as u32,
            0,
        ]));
        for (offset, size) in areas {
            body.extend_from_slice(&offset.to_le_bytes());
            body.extend_from_slice(&size.to_le_bytes());
        }
    }
    (body, with_areas)
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Reads little-endian fields off the front of a slice.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Fields { rest }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u16, size: u32, flags: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..2].copy_from_slice(&7u16.to_le_bytes());
        bytes[2..4].copy_from_slice(&command.to_le_bytes());
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        bytes[8..12].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    #[test]
    fn header_size_is_bounded() {
        assert!(Header::parse(&header(9, 15, 0)).is_none());
        assert!(Header::parse(&header(9, 16, 0)).is_some());
        assert!(Header::parse(&header(9, MAX_MESSAGE_BYTES as u32, 0)).is_some());
        assert!(Header::parse(&header(9, MAX_MESSAGE_BYTES as u32 + 1, 0)).is_none());
    }

    #[test]
    fn replies_echo_the_id() {
        let request = Header::parse(&header(10, 32, FLAG_NO_REPLY)).unwrap();
        assert!(request.no_reply && !request.is_reply);
        let reply = request.reply(&[1, 2, 3]);
        assert_eq!(&reply[..16], &[7, 0, 10, 0, 19, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&reply[16..], &[1, 2, 3]);
        let error = request.error(22);
        assert_eq!(&error[8..], &[0x21, 0, 0, 0, 22, 0, 0, 0]);
    }

    #[test]
    fn short_bodies_are_refused() {
        for command in [1, 2, 3, 5, 7, 8, 9, 10] {
            assert_eq!(Request::parse(command, &[0; 3]), None, "command {command}");
        }
        let mut write = words(&[0, 0, 0, 5]);
        write.extend_from_slice(&[0; 4]);
        assert_eq!(Request::parse(10, &write), None);
        write.push(0);
        assert!(Request::parse(10, &write).is_some());
        assert_eq!(Request::parse(9, &words(&[0, 0, 0, u32::MAX])), None);
    }

    #[test]
    fn unknown_commands_are_unsupported() {
        for command in [0, 6, 11, 12, 14, 15, 999] {
            assert_eq!(Request::parse(command, &[]), Some(Request::Unsupported));
        }
    }

    #[test]
    fn region_areas_need_room() {
        let areas = [(0u64, 0x1000u64), (0x8000, 0x1000)];
        let (short, with_areas) = region_info_body(32, 0, REGION_READ, 0x40000, &areas);
        assert!(!with_areas);
        assert_eq!(short.len(), 32);
        assert_eq!(u32::from_le_bytes(short[0..4].try_into().unwrap()), 80);
        let (full, with_areas) = region_info_body(80, 0, REGION_READ, 0x40000, &areas);
        assert!(with_areas);
        assert_eq!(full.len(), 80);
        let (plain, with_areas) = region_info_body(32, 2, REGION_READ, 0x1000, &[]);
        assert!(!with_areas);
        assert_eq!(u32::from_le_bytes(plain[4..8].try_into().unwrap()), REGION_READ);
    }
}
