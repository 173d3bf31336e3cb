//! How many connections a server may have open, of all clients and of one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places for connections. Clones are the same places.
#[derive(Clone, Debug)]
pub(super) struct Places {
    most: usize,
    most_of_one: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All are taken, so many.
    All(usize),
    /// The address has its share, so many.
    Address(usize),
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    /// So many places, and so many for one address.
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        Self { most, most_of_one, taken: Arc::default() }
    }

    /// Takes a place for a client at this address.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn take(&self, address: IpAddr) -> Result<Place, Full> {
        let address = network(address);
        let mut taken = self.taken();
        if taken.all >= self.most {
            return Err(Full::All(self.most));
        }
        let of_one = taken.of.entry(address).or_default();
        if *of_one >= self.most_of_one {
            return Err(Full::Address(self.most_of_one));
        }
        *of_one = of_one.saturating_add(1);
        taken.all = taken.all.saturating_add(1);
        Ok(Place { places: self.clone(), address })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all = taken.all.saturating_sub(1);
        if let Some(of_one) = taken.of.get_mut(&self.address) {
            *of_one = of_one.saturating_sub(1);
            if *of_one == 0 {
                taken.of.remove(&self.address);
            }
        }
    }
}

/// The address that stands for all addresses of one client: this machine has one, whatever it calls itself; a
/// network of 64 bits of IPv6 has one, since a host may have all of its addresses.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        local if local.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        of_four => of_four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_leaves_places_for_others() {
        let places = Places::new(8, 6);
        let mut taken: Vec<_> = (0..6).map(|_| places.take(address("10.0.0.1")).unwrap()).collect();
        assert_eq!(places.take(address("10.0.0.1")).unwrap_err(), Full::Address(6));
        assert_eq!(places.take(address("::ffff:10.0.0.1")).unwrap_err(), Full::Address(6));
        let others: Vec<_> = (2..4).map(|_| places.take(address("10.0.0.2")).unwrap()).collect();
        assert_eq!(places.take(address("10.0.0.3")).unwrap_err(), Full::All(8));
        taken.pop();
        assert_eq!(places.take(address("10.0.0.3")).map(drop), Ok(()));
        drop((taken, others));
        assert!(places.taken().of.is_empty());
    }

    #[test]
    fn this_machine_is_one_address_by_all_its_names() {
        let places = Places::new(4, 1);
        let _taken = places.take(address("127.0.0.1")).unwrap();
        for name in ["127.0.0.2", "::1", "::ffff:127.1.2.3"] {
            assert_eq!(places.take(address(name)).unwrap_err(), Full::Address(1), "{name}");
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let places = Places::new(4, 3);
        let _taken: Vec<_> = (1..4)
            .map(|host| places.take(address(&format!("2001:db8::{host}"))).unwrap())
            .collect();
        assert_eq!(places.take(address("2001:db8::ffff")).unwrap_err(), Full::Address(3));
        places.take(address("2001:db8:0:1::1")).unwrap();
    }
}
