//! A configuration, whole, for people.

use std::fmt;

use super::{CoordinationShape, DatasetShape, Swarm};

impl fmt::Display for Swarm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, consumers, together, rogues, operators, .. } = self;
        writeln!(
            out,
            "machines  1 node, {workers} workers, {consumers} consumers ({together} together), \
             {rogues} rogues, {operators} operators"
        )?;
        writeln!(out, "span      {} ms, then {:?}", self.span_ms, self.ending)?;
        write!(out, "faults   ")?;
        for (fault, strength) in self.faults.on() {
            write!(out, " {fault}={strength}")?;
        }
        write!(out, "\nrequests ")?;
        for (kind, weight) in self.weights.all() {
            write!(out, " {kind}={weight}")?;
        }
        writeln!(out, "\njournal   {:?}", self.journal)?;
        writeln!(out, "net       {:?}", self.net)?;
        writeln!(out, "pace      {:?}", self.pace)?;
        writeln!(out, "settings  {:?}", self.settings)?;
        for (number, dataset) in self.datasets.iter().enumerate() {
            writeln!(out, "dataset {number} {dataset}")?;
        }
        if let Some(coordination) = &self.coordination {
            let told = CoordinationShape { relays: Vec::new(), ..coordination.clone() };
            writeln!(out, "coordination {told:?}")?;
            for (number, relay) in coordination.relays.iter().enumerate() {
                writeln!(out, "relay {number} {relay:?}")?;
            }
        }
        if let Some(reading) = &self.reading {
            writeln!(out, "reading   {reading:?}")?;
        }
        if let Some(elements) = &self.elements {
            writeln!(out, "elements  {elements:?}")?;
        }
        if self.stock_workers {
            writeln!(out, "workers   all say the uid -1")?;
        }
        if let Some(rendezvous) = &self.rendezvous {
            writeln!(out, "rendezvous (nobody else takes part) {rendezvous:?}")?;
        }
        if let Some(exchange) = &self.exchange {
            writeln!(out, "exchange  (nobody else takes part) {exchange:?}")?;
        }
        writeln!(out, "jobs      {} names; looks every {} steps", self.job_names, self.look_every)
    }
}

impl fmt::Display for DatasetShape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sources, wished, large, compressed } = self;
        write!(out, "sources {sources:?} wished {wished:?} large {large} compressed {compressed}")
    }
}
