//! How a reader of records joins what is read at present, and with how many others.

use rondo_core::dispatcher::{GetOrCreateJob, Request, ShardingPolicy, TargetWorkers};
use rondo_core::ids::DatasetId;
use rondo_core::reader::{BySplit, Config, Input, Member, Reader, Way};
use rondo_core::time::Time;

use super::{AHEAD, For, HASTY_MS, RecordReader};
use crate::mark::Mark;
use crate::swarm::ReadingShape;
use crate::workload::actor::{Act, With};
use crate::workload::dispatcher::element_bytes::{self, READ_BOTH_WAYS, READ_BY_ELEMENT};
use crate::workload::dispatcher::record_bytes::{self, READ_BY_SPLIT};
use crate::workload::dispatcher::{ms, pause};

/// A reader that is none of the present group looks so often whether it is one again, in ms.
const LOOK_MS: u64 = 500;

impl RecordReader {
    pub(super) fn register(&mut self, now: Time, with: &mut With<'_>) {
        self.at = Time::NEVER;
        let request = match (with.swarm.reads_both_ways(), &with.swarm.elements) {
            (true, Some(shape)) => element_bytes::registration(shape),
            _ => with.swarm.reading.as_ref().and_then(record_bytes::registration),
        };
        if let Some(request) = request {
            self.call(now, For::Register, Request::RegisterDataset(request), with);
        }
    }

    /// Begins to read the job that is read at present.
    pub(super) fn begin(&mut self, now: Time, with: &mut With<'_>) {
        let Some(shape) = with.swarm.reading else {
            return;
        };
        self.is_beside_elements = shape.beside_elements;
        self.generation = match self.is_beside_elements {
            true => with.known.read_both_ways(),
            false => with.known.read_by_split,
        };
        let entropy = with.stream.below(u64::MAX);
        self.reader = Some(Reader::new(self.config(&shape, with), entropy));
        if !with.calm && with.stream.chance(shape.hasty) {
            self.closes_at = now.after(ms(with.stream.below(HASTY_MS)));
        }
        self.step(now, Input::Wanted { deliveries: AHEAD }, with);
        self.step(now, Input::Tick, with);
    }

    fn config(&mut self, shape: &ReadingShape, with: &With<'_>) -> Config {
        let (size, which) = group(shape, with);
        self.group = which;
        let member = Member { index: self.number, size };
        let way = BySplit {
            hold: shape.hold,
            streams: 2,
            batch_records: u32::try_from(shape.batch).unwrap_or(1),
            group: shape.grouped.then_some(member),
            ..BySplit::default()
        };
        let beat = with.swarm.pace.client_heartbeat_ms.min(shape.timeout_ms / 3);
        Config {
            heartbeat_interval: ms(beat),
            heartbeat_interval_min: ms(beat.min(50)),
            buffer_deliveries_max: 4,
            ..Config::of(Way::BySplit(way))
        }
    }

    pub(super) fn job(&self) -> GetOrCreateJob {
        let dataset = if self.is_beside_elements { READ_BY_ELEMENT } else { READ_BY_SPLIT };
        GetOrCreateJob {
            dataset: DatasetId::new(dataset),
            same_dataset: false,
            sharding: ShardingPolicy::Dynamic,
            name: Some(self.job_name()),
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
        }
    }

    pub(super) fn job_name(&self) -> String {
        let prefix = if self.is_beside_elements { READ_BOTH_WAYS } else { READ_BY_SPLIT };
        format!("{prefix}{}", self.generation)
    }

    /// Somebody begins the whole group anew with another size, in the midst of a job.
    pub(super) fn resize(&self, shape: &ReadingShape, with: &mut With<'_>) {
        let (before, which) = group(shape, with);
        let other = with.stream.below(u64::from(shape.readers).saturating_sub(1));
        let other = u32::try_from(other).unwrap_or(0).saturating_add(1);
        let size = if other < before { other } else { other.saturating_add(1) };
        with.known.group = Some((size, which.saturating_add(1)));
        with.tally.mark(Mark::GroupResized);
    }

    /// Goes with the group when that begins anew: its processes end, some of them well.
    pub(super) fn follow_group(&mut self, now: Time, with: &mut With<'_>) {
        let Some(shape) = with.swarm.reading.filter(|shape| shape.resizes > 0) else {
            return;
        };
        let (size, which) = group(&shape, with);
        if self.reader.is_some() && std::mem::replace(&mut self.group, which) != which {
            if with.stream.chance(500) {
                self.close(now, with);
            } else {
                while let Some(token) = self.calls.take_one(|_| true) {
                    with.acts.push(Act::GiveUp { token });
                }
                self.forget();
                self.at = now.after(pause(with.stream, with.swarm.pace.pause_ms));
            }
        }
        if self.reader.is_none() && self.calls.is_empty() && self.number >= size {
            self.at = now.after(ms(LOOK_MS));
            self.got_on_at = now;
        }
    }
}

/// The size of the group at present, and how many it had before.
fn group(shape: &ReadingShape, with: &With<'_>) -> (u32, u64) {
    with.known.group.unwrap_or((shape.readers, 0))
}
