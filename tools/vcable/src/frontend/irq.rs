// SPDX-License-Identifier: GPL-2.0
//! The MSI-X vectors of one guest's device, as the eventfds that its QEMU gave for them.
//!
//! Lock order: the engine's lock, then `files`.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use crate::core::{Interrupts, MSIX_VECTORS};

/// One vector.
#[derive(Debug, Default)]
struct Vector {
    file: Option<File>,
    /// Raised while it had no eventfd: the pending bit of MSI-X. QEMU takes all eventfds away for a moment
    /// when it sets vectors up anew, and what the device raises meanwhile must not be lost: the status bit
    /// stays set, so no second edge would ever come.
    pending: bool,
}

impl Vector {
    fn ring(&self) {
        if let Some(file) = &self.file {
            let _ = { file }.write(&1u64.to_ne_bytes());
        }
    }
}

/// The eventfds by vector. What a vector without one raises waits for it.
#[derive(Debug, Default)]
pub struct Vectors {
    files: Mutex<[Vector; MSIX_VECTORS as usize]>,
}

impl Vectors {
    /// Gives `count` vectors from `first` the eventfds in `files`, or takes theirs away where `files`
    /// is empty. False, and nothing changed, where they are not vectors or the numbers differ.
    pub fn assign(&self, first: u32, count: u32, files: Vec<OwnedFd>) -> bool {
        let last = first.saturating_add(count);
        let counts_agree = files.is_empty() || files.len() == count as usize;
        if last > u32::from(MSIX_VECTORS) || !counts_agree {
            return false;
        }
        let mut given = files.into_iter().map(File::from);
        for vector in &mut self.files.lock().unwrap()[first as usize..last as usize] {
            vector.file = given.next();
            if vector.file.is_some() && std::mem::take(&mut vector.pending) {
                vector.ring();
            }
        }
        true
    }

    /// Takes all eventfds away; what is raised from now on waits for new ones.
    pub fn disable(&self) {
        self.files.lock().unwrap().iter_mut().for_each(|vector| vector.file = None);
    }

    /// Forgets what was raised and not delivered: the device was reset.
    pub fn forget(&self) {
        self.files.lock().unwrap().iter_mut().for_each(|vector| vector.pending = false);
    }
}

impl Interrupts for Vectors {
    /// Adds one to the vector's eventfd, which QEMU or the kernel turns into an MSI-X. The write blocks
    /// only at 2^64 - 2 unread interrupts.
    fn raise(&self, vector: u16) {
        if let Some(vector) = self.files.lock().unwrap().get_mut(usize::from(vector)) {
            vector.ring();
            vector.pending |= vector.file.is_none();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::eventfd::{EfdFlags, EventFd};

    fn event() -> (EventFd, OwnedFd) {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        let copy = std::os::fd::AsFd::as_fd(&event).try_clone_to_owned().unwrap();
        (event, copy)
    }

    #[test]
    fn a_vector_rings_its_own_eventfd() {
        let vectors = Vectors::default();
        let ((first, first_copy), (second, second_copy)) = (event(), event());
        assert!(vectors.assign(14, 2, vec![first_copy, second_copy]));
        vectors.raise(15);
        vectors.raise(15);
        vectors.raise(3);
        vectors.raise(99);
        assert_eq!(second.read().unwrap(), 2);
        assert!(first.read().is_err());
        assert!(vectors.assign(15, 1, Vec::new()));
        vectors.raise(15);
        assert!(second.read().is_err());
        vectors.raise(14);
        assert_eq!(first.read().unwrap(), 1);
        vectors.disable();
        vectors.raise(14);
        assert!(first.read().is_err());
    }

    #[test]
    fn what_is_raised_without_an_eventfd_waits_for_one() {
        let vectors = Vectors::default();
        let (event, copy) = event();
        let again = copy.try_clone().unwrap();
        assert!(vectors.assign(1, 1, vec![copy]));
        vectors.disable();
        vectors.raise(1);
        vectors.raise(1);
        assert!(event.read().is_err());
        assert!(vectors.assign(1, 1, vec![again.try_clone().unwrap()]));
        assert_eq!(event.read().unwrap(), 1, "told once");
        vectors.disable();
        vectors.raise(1);
        vectors.forget();
        assert!(vectors.assign(1, 1, vec![again]));
        assert!(event.read().is_err(), "a reset forgets it");
    }

    #[test]
    fn bad_assignments_are_refused() {
        let vectors = Vectors::default();
        assert!(!vectors.assign(16, 1, Vec::new()));
        assert!(!vectors.assign(u32::MAX, 2, Vec::new()));
        assert!(!vectors.assign(0, 2, vec![event().1]));
    }
}
