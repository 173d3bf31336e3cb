//! How much is held, and who may be told that there is room. The order in which senders get it is not
//! laid down to the last: it is checked that nobody is passed over, and nobody waits in vain.

use super::*;

impl Model {
    /// The bytes of each tensor that a step holds.
    fn held(&self, id: i64) -> Vec<u64> {
        let kept = self.kept.values().filter(|kept| kept.step == id);
        let kept = kept.filter_map(|kept| kept.tensor);
        let Some(step) = self.steps.get(&id) else {
            return kept.map(|tensor| tensor.bytes).collect();
        };
        let later = step.later.iter().filter_map(|later| match later {
            Later::Send(sent) => Some(sent),
            _ => None,
        });
        let sent = step.sent.iter().chain(later).filter(|sent| sent.sender.is_none());
        sent.map(|sent| sent.tensor).chain(kept).map(|tensor| tensor.bytes).collect()
    }

    fn held_of_all(&self) -> Vec<u64> {
        self.steps.keys().flat_map(|id| self.held(*id)).collect()
    }

    /// The bytes of answers that are kept.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept.values().filter_map(|kept| kept.tensor).map(|tensor| tensor.bytes).sum()
    }

    fn has_step_room(&self, id: i64, bytes: u64) -> bool {
        let held = self.held(id);
        held.len() < self.step_tensors_max
            && held.iter().sum::<u64>() + bytes <= self.step_bytes_max
    }

    fn has_room_of_all(&self, bytes: u64) -> bool {
        let held = self.held_of_all();
        held.len() < self.tensors_max && held.iter().sum::<u64>() + bytes <= self.bytes_max
    }

    pub(super) fn has_room(&self, id: i64, bytes: u64) -> bool {
        self.has_step_room(id, bytes) && self.has_room_of_all(bytes)
    }

    pub(super) const fn could_have_room(&self, bytes: u64) -> bool {
        bytes <= self.step_bytes_max && bytes <= self.bytes_max
    }

    /// Senders that wait for room in steps that are initialised, the first one first.
    fn parked(&self) -> Vec<(i64, Sent)> {
        let of = |(id, step): (&i64, &Step)| {
            let parked = step.sent.iter().filter(|sent| sent.sender.is_some());
            parked.map(|sent| (*id, *sent)).collect::<Vec<_>>()
        };
        let mut parked: Vec<_> = self.steps.iter().flat_map(of).collect();
        parked.sort_by_key(|(_, sent)| sent.number);
        parked
    }

    /// Of senders for which there is room by now these are told so. Which of several get it, and when in
    /// the course of a step's beginning, is not laid down.
    pub(super) fn give_room(&mut self, done: &BTreeSet<CallId>) {
        for (id, sent) in self.parked() {
            let sender = sent.sender.filter(|call| done.contains(call));
            if let Some(call) = sender.filter(|_| self.has_room(id, sent.tensor.bytes)) {
                self.take_on(id, call);
            }
        }
    }

    fn take_on(&mut self, id: i64, call: CallId) {
        let mut all = self.steps.get_mut(&id).unwrap().sent.iter_mut();
        all.find(|it| it.sender == Some(call)).unwrap().sender = None;
        self.tell(call, Told::Done);
    }

    /// These were told, among them some that there is room for their tensors.
    pub(crate) fn room_was_given(&mut self, told: &BTreeMap<CallId, Told>) {
        for (id, sent) in self.parked() {
            let call = sent.sender.unwrap();
            if told.get(&call) != Some(&Told::Done) {
                continue;
            }
            assert!(self.has_room(id, sent.tensor.bytes), "there is no room for {sent:?} of {id}");
            self.take_on(id, call);
            let passed_over = self.parked().into_iter().next().filter(|(of, it)| {
                *of == id && it.number < sent.number && it.tensor.bytes <= sent.tensor.bytes
            });
            assert!(passed_over.is_none(), "{passed_over:?} was passed over for {sent:?}");
        }
        let parked = self.parked();
        for (nth, (id, sent)) in parked.iter().enumerate() {
            let is_behind = |(of, it): &(i64, Sent)| {
                let bytes = it.tensor.bytes;
                let in_step = of == id && !self.has_room(*of, bytes);
                in_step || !self.has_room_of_all(bytes)
            };
            let waits_in_vain =
                self.has_room(*id, sent.tensor.bytes) && !parked[..nth].iter().any(is_behind);
            assert!(!waits_in_vain, "there is room for {sent:?} of step {id}");
        }
    }

    /// Steps, tensors held, their bytes, calls that wait, requests whose answers are kept or awaited.
    pub(crate) fn report(&self) -> (usize, usize, u64, usize, usize) {
        let held = self.held_of_all();
        let bytes = held.iter().sum();
        (self.steps.len(), held.len(), bytes, self.waiting.len(), self.kept.len())
    }
}
