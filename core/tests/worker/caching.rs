//! Elements for all trainers: stories, and a model of the window.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rondo_core::status::Code;
use rondo_core::worker::{ElementAsk, Input, Part, TaskDef, Then};

use crate::world::{World, ask, element, number, task};

fn world(cache_bytes: u64) -> World {
    let mut world = World::registered_with(|config| config.cache_bytes = cache_bytes);
    world.add([TaskDef { uses_cache: true, ..task(5, Part::Whole) }]);
    world
}

fn of(trainer: &str) -> ElementAsk {
    ElementAsk { trainer: trainer.to_owned(), allow_skip: true, ..ask(5) }
}

/// Opens the data for a trainer who goes.
fn open(world: &mut World) {
    let call = world.get(of("nobody"));
    world.dispatch();
    world.cancel(call);
}

#[test]
fn all_trainers_get_all_elements() {
    let mut world = world(1 << 20);
    open(&mut world);
    world.made(0..3, Then::More);
    let order = ["A", "A", "B", "A", "B", "C"];
    let got = order.map(|trainer| {
        let call = world.get(of(trainer));
        world.element_of(call)
    });
    assert_eq!(got, [0, 1, 0, 2, 1, 0]);
}

#[test]
fn an_element_that_has_not_left_is_its_trainers_again() {
    let mut world = world(1 << 20);
    open(&mut world);
    world.made(0..3, Then::More);
    let calls = [world.get(of("A")), world.get(of("A"))];
    assert_eq!(calls.map(|call| world.element_of(call)), [0, 1]);
    world.cancel(calls[0]);
    world.left(calls[1]);
    let next = [world.get(of("A")), world.get(of("A"))];
    assert_eq!(next.map(|call| world.element_of(call)), [0, 2]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut world = world(16);
    let call = world.get(of(""));
    assert_eq!(world.code_of(call), Code::InvalidArgument);
    open(&mut world);
    let waiting = world.get(of("A"));
    let (run, ..) = world.wanted.remove(0);
    let elements = vec![element(0, 9), element(1, 8)];
    world.step(Input::Produced { run, elements, then: Then::End });
    assert_eq!(world.code_of(waiting), Code::InvalidArgument);
    let next = world.get(of("A"));
    assert_eq!(world.element_of(next), 1);
    let end = world.get(of("A"));
    assert_eq!(world.code_of(end), Code::InvalidArgument, "the data must be endless");
    let other = world.get(of("B"));
    assert_eq!(world.element_of(other), 1, "what is in the window is there");
}

#[test]
fn a_task_has_a_bounded_number_of_trainers() {
    let mut world = world(1 << 20);
    open(&mut world);
    world.made([0], Then::More);
    // `open` was one trainer.
    for trainer in 1..4096 {
        let call = world.get(of(&trainer.to_string()));
        assert_eq!(world.element_of(call), 0, "trainer {trainer}");
        world.left(call);
    }
    let refused = world.get(of("4096"));
    match world.answers.remove(&refused) {
        Some(Err(status)) => {
            assert_eq!(status.code, Code::ResourceExhausted);
            assert!(status.message.contains("4096 trainers"), "{status}");
        }
        other => panic!("one trainer more is answered with {other:?}"),
    }
    world.get(of("4095"));
    assert!(world.answers.is_empty(), "one that is known waits for the next element");
}

proptest! {
    /// The window as spec: each element is kept until newer ones need its place.
    #[test]
    fn the_window_is_that_of_the_model(
        cache_bytes in 20..60_u64,
        steps in prop::collection::vec((0..4_usize, 0..12_usize), 1..100),
    ) {
        let mut world = world(cache_bytes);
        open(&mut world);
        let mut sizes: Vec<u64> = Vec::new();
        let mut next: BTreeMap<usize, usize> = BTreeMap::new();
        for (trainer, more) in steps {
            let call = world.get(of(&format!("trainer {trainer}")));
            // The oldest element such that all from it on fit together.
            let start = |sizes: &[u64]| {
                let fits = |from: &usize| sizes[*from..].iter().sum::<u64>() <= cache_bytes;
                (0..=sizes.len()).find(fits).unwrap()
            };
            let mut place = next.get(&trainer).copied().unwrap_or(0).max(start(&sizes));
            if place == sizes.len() {
                let made = element(sizes.len() as u64, more);
                sizes.push(made.len() as u64);
                let (run, ..) = world.wanted.remove(0);
                world.step(Input::Produced { run, elements: vec![made], then: Then::More });
                place = place.max(start(&sizes));
            }
            next.insert(trainer, place + 1);
            prop_assert_eq!(world.element_of(call), place as u64);
            world.left(call);
        }
        prop_assert_eq!(number(&element(7, 3)), 7);
    }
}
