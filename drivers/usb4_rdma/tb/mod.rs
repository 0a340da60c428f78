// SPDX-License-Identifier: GPL-2.0

//! The thunderbolt side: finds the other host, agrees with it on lanes, and moves
//! frames over them.
//!
//! Lock order: `Shared::peers` is taken alone.

mod greeting;
mod lane;
mod lane_rx;
mod link;
mod loopback;
mod offer;
mod peer;
mod queues;
mod report;
mod waiters;

pub(crate) use lane::{Kind, Lane, RxBuf, Sent};
pub(crate) use link::Link;

use crate::ffi::tb_netdev::{NetdevNotifier, NetdevWatcher};
use crate::ffi::tb_service::{MessageSink, Properties, ProtocolHandler, ServiceRegistration};
use crate::proto::handshake;
use greeting::Packet;
use kernel::debugfs::Dir;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use peer::Peer;
use queues::Queues;

/// The service's key in the properties of a host, at most 8 characters.
const KEY: &CStr = c"u4rdma";
/// Most cables.
const MAX_PEERS: usize = 16;

/// What all cables share.
#[pin_data]
pub(crate) struct Shared {
    queues: Queues,
    reports: Dir,
    #[pin]
    peers: SpinLock<[Option<Arc<Peer>>; MAX_PEERS]>,
}

impl Shared {
    fn add(&self, peer: Arc<Peer>) -> Result {
        let mut peers = self.peers.lock();
        let place = peers.iter_mut().find(|place| place.is_none()).ok_or(ENOSPC)?;
        *place = Some(peer);
        Ok(())
    }

    fn forget(&self, peer: &Peer) {
        let mut peers = self.peers.lock();
        let place = peers.iter_mut().find(|place| {
            place
                .as_ref()
                .is_some_and(|other| core::ptr::eq(&**other, peer))
        });
        let found = place.and_then(Option::take);
        drop(peers);
        drop(found);
    }

    /// Calls `f` with each peer, without a lock.
    fn each_peer(&self, mut f: impl FnMut(&Arc<Peer>)) {
        for n in 0..MAX_PEERS {
            let peer = self.peers.lock().get(n).cloned().flatten();
            if let Some(peer) = peer {
                f(&peer);
            }
        }
    }
}

impl MessageSink for Shared {
    /// Runs in the control channel's receive worker: hands the message on.
    fn message(&self, bytes: &[u8]) {
        let Some(packet) = Packet::parse(bytes) else {
            return;
        };
        self.each_peer(|peer| {
            if packet.is_for(&peer.xd) {
                match packet.hello() {
                    Some(hello) => peer.message(hello),
                    None => {
                        peer.garbage.fetch_add(1, Relaxed);
                    }
                }
            }
        });
    }
}

impl NetdevWatcher for Shared {
    fn changed(&self) {
        self.each_peer(|peer| peer.kick());
    }
}

/// Everything that is registered with the kernel, in the order in which it goes:
/// first no new peers, then the peers, then what calls them, then the queues.
pub(crate) struct Driver {
    _properties: Properties,
    _service: ServiceRegistration<Peer>,
    _messages: ProtocolHandler<Shared>,
    _netdevs: NetdevNotifier<Shared>,
    _shared: Arc<Shared>,
}

impl Driver {
    /// Registers the driver; what is connected already is found at once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what a registration says.
    pub(crate) fn new(module: &'static ThisModule) -> Result<Self> {
        let queues = Queues::new()?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                queues,
                reports: Dir::new(c"usb4_rdma"),
                peers <- new_spinlock!([const { None }; MAX_PEERS], "usb4_rdma peers"),
            }),
            GFP_KERNEL,
        )?;
        let netdevs = NetdevNotifier::new(shared.clone())?;
        let messages = ProtocolHandler::new(&greeting::PROTOCOL, shared.clone())?;
        let service = ServiceRegistration::new(c"usb4_rdma", module, shared.clone())?;
        let version = u32::from(handshake::VERSION_MAX);
        let properties = Properties::new(KEY, &greeting::DIRECTORY, version, handshake::CAPS)?;
        if service.domain_present() {
            pr_info!("ready, waiting for a host at the other end of a cable\n");
        } else {
            pr_info!("no Thunderbolt or USB4 host router here; nothing to do until one appears\n");
        }
        Ok(Self {
            _properties: properties,
            _service: service,
            _messages: messages,
            _netdevs: netdevs,
            _shared: shared,
        })
    }
}
