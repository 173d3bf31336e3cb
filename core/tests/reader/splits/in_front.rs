//! Splits that come in front of those that are read: they come back to the dispatcher, and have lower places.

use rondo_core::ids::ClientId;

use super::*;

const OTHER: Option<ClientId> = Some(ClientId::new(1));

fn one_stream(config: &mut Config) {
    config.way = Way::BySplit(BySplit { streams: 1, ..BySplit::default() });
}

impl Story {
    /// Another reader leaves the split at a place, and this one asks for splits.
    fn gain(&mut self, place: usize) {
        self.server.splits[place].holder = None;
        let call = CallId::new(100 + place as u64);
        self.actor.step(self.now, Input::Flush { call });
        self.answer_all();
    }

    fn worker_of(&self, place: u64) -> &str {
        &self.actor.streams[&self.stream(place)].address
    }
}

/// A reader that cannot read a split asks again. Splits that came back to the dispatcher meanwhile have lower
/// places.
#[test]
fn one_stream_more_than_allowed_is_open_however_often_another_split_comes_in_front() {
    let mut story = Story::of(4, |config| {
        config.way = Way::BySplit(BySplit { streams: 2, ..BySplit::default() });
    });
    story.server.splits[..2].iter_mut().for_each(|split| split.holder = OTHER);
    story.answer_all();
    story.bring(2, records(0, 5, false));
    story.bring(3, records(0, 5, false));
    story.answer(story.stream(3), Err(unavailable()));
    for place in [1, 0] {
        story.server.splits[place].holder = None;
        story.wait(5_000);
        story.answer_all();
        let is_in_front = story.actor.streams[&story.stream(place as u64)].asked;
        assert!(is_in_front, "{place}: {:?}", story.actor.streams);
        assert!(story.actor.streams.len() <= 3, "{:?}", story.actor.streams);
    }
    story.want(9);
    story.bring(0, records(0, 1, true));
    story.bring(1, records(0, 1, true));
    story.bring(2, records(5, 1, true));
    let last = story.actor.streams[&story.stream(3)].read.skip;
    assert_eq!(last, 5, "it is read on where it stopped");
    story.bring(3, records(5, 1, true));
    let places = [(0, 0, 1), (1, 0, 1), (2, 0, 5), (2, 5, 1), (3, 0, 5), (3, 5, 1)];
    assert_eq!(story.places(), places);
}

/// A worker that is slow to fail is left alone for a while after each trial, however the trial ended.
#[test]
fn a_trial_that_is_withdrawn_is_not_begun_again_at_once() {
    let mut story = Story::of(5, one_stream);
    [0, 1, 2, 4].into_iter().for_each(|place| story.server.splits[place].holder = OTHER);
    story.answer_all();
    story.wait(2_000);
    let slow = story.worker_of(3).to_owned();
    story.answer(story.stream(3), Err(unavailable()));
    story.wait(10);
    story.answer_all();
    assert_ne!(story.worker_of(3), slow);
    story.bring(3, records(0, 1, true));
    story.gain(4);
    assert_eq!(story.worker_of(4), slow, "the trial");
    story.wait(5_000);
    story.answer_all();
    story.gain(2);
    story.gain(1);
    story.want(9);
    story.bring(1, records(0, 1, true));
    story.bring(2, records(0, 1, true));
    assert_ne!(story.worker_of(4), slow, "it took 5 s, so the pause is longer");
}

#[test]
fn a_split_that_failed_before_it_was_withdrawn_is_no_stall() {
    let mut story = Story::of(3, one_stream);
    story.server.splits[..2].iter_mut().for_each(|split| split.holder = OTHER);
    story.answer_all();
    story.answer(story.stream(2), Err(unavailable()));
    for place in [1, 0] {
        story.server.splits[place].holder = None;
        story.wait(1_000);
        story.answer_all();
    }
    story.want(99);
    for first in 0..20 {
        story.wait(1_000);
        story.answer_all();
        story.bring(0, records(first, 1, false));
    }
    assert_eq!(story.stall(), None);
}

/// A worker that seems to have one stream more than it has would be passed over for ever.
#[test]
fn a_stream_that_made_way_counts_no_more_for_its_worker() {
    let mut story = Story::of(3, one_stream);
    story.server.splits[..2].iter_mut().for_each(|split| split.holder = OTHER);
    story.answer_all();
    let worker = story.worker_of(2).to_owned();
    story.gain(1);
    story.gain(0);
    story.want(9);
    story.bring(0, records(0, 1, true));
    story.bring(1, records(0, 1, true));
    assert_eq!(story.worker_of(2), worker);
}
