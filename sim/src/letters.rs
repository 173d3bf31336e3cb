//! What is under way on simulated connections, of worlds that have an event loop of their own.

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// Who has connected, and asks.
    Client,
    /// Who was connected to, and is asked.
    Server,
}

impl End {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What is under way, each thing at a place of its own.
#[derive(Debug)]
pub(crate) struct Letters<L> {
    places: Vec<Option<L>>,
    free: Vec<u32>,
}

impl<L> Default for Letters<L> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<L> Letters<L> {
    pub(crate) fn put(&mut self, letter: L) -> u32 {
        if let Some(place) = self.free.pop()
            && let Some(vacant) = self.places.get_mut(place as usize)
        {
            *vacant = Some(letter);
            return place;
        }
        let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Some(letter));
        place
    }

    pub(crate) fn look(&self, place: u32) -> Option<&L> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(crate) fn take(&mut self, place: u32) -> Option<L> {
        let taken = self.places.get_mut(place as usize)?.take();
        self.free.push(place);
        taken
    }
}
