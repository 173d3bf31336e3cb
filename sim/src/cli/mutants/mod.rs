//! `rondo-sim mutants`: planted bugs, found or not.
//!
//! Each patch is applied to a copy of the sources, the simulator is built there, and its swarm runs
//! from several starting points until a promise is broken. One that does not apply or compile is
//! told of at the end, and the others are hunted all the same.

mod hunt;
mod plant;
mod quick;
mod table;
mod tree;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use self::hunt::{Bounds, Hunt};
use self::plant::Plant;
use self::table::Row;
use self::tree::{Build, Tree};
use super::Done;
use super::swarm::cores;
use crate::tier::Tier;

/// Which bugs, where to build, and how long to look.
#[derive(Debug, Args)]
pub(super) struct MutantsArguments {
    /// The folder of patches.
    #[arg(long, default_value = "sim/mutants")]
    patches: PathBuf,
    /// Where the copy is built; kept, so that the next time is quicker.
    #[arg(long, default_value = "target/mutants")]
    scratch: PathBuf,
    /// Only bugs whose names contain one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only bugs to be found in this world.
    #[arg(long, value_enum)]
    tier: Option<Tier>,
    /// Only those that are found within few seeds (`Quick: yes`), all in one build that is not
    /// optimised; at most `--seeds` seeds of each part.
    #[arg(long, conflicts_with_all = ["points", "seconds", "output", "tier"])]
    quick: bool,
    /// Starting points, far apart and always the same.
    #[arg(long, default_value_t = 10)]
    points: u64,
    /// Seeds to run from each starting point at most.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// Seconds to look for one bug at most, all starting points together.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Starting points at once; as many as there are cores if not said.
    #[arg(long)]
    jobs: Option<usize>,
    /// How to print what came of it.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// How the table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Columns, a line as soon as it is known.
    #[default]
    Text,
    /// A table for a page, a row as soon as it is known.
    Markdown,
    /// One object, at the end.
    Json,
}

/// Runs it; well when all bugs were found, nearly all of them by the oracle expected.
pub(super) fn run(arguments: &MutantsArguments) -> Done {
    let mut plants = plant::read_all(&arguments.patches, &arguments.only)?;
    plants.retain(|plant| arguments.tier.is_none_or(|tier| plant.tier == tier));
    if plants.is_empty() {
        return Err(format!("{} has no such patch", arguments.patches.display()));
    }
    let tree = Tree::new(&arguments.scratch)?;
    if arguments.quick {
        plants.retain(|plant| plant.is_quick && plant.tier == Tier::Core);
        return look_quickly(arguments, &tree, &plants);
    }
    match arguments.output {
        Output::Text => println!("{}", table::text_head()),
        Output::Markdown => println!("{}", table::markdown_head()),
        Output::Json => {}
    }
    let mut rows = Vec::new();
    for plant in plants {
        let row = look_for(arguments, &tree, plant);
        match arguments.output {
            Output::Text => println!("{}", table::text_row(&row)),
            Output::Markdown => println!("{}", table::markdown_row(&row)),
            Output::Json => {}
        }
        rows.push(row);
    }
    match arguments.output {
        Output::Text => println!("{}", table::summary(&rows)),
        Output::Markdown => println!("\n{}", table::summary(&rows)),
        Output::Json => print!("{}", table::json(&rows)),
    }
    Ok(table::is_well(&rows))
}

/// Plants all, builds once, and looks for each.
fn look_quickly(arguments: &MutantsArguments, tree: &Tree, plants: &[Plant]) -> Done {
    quick::check_apart(plants)?;
    let began = Instant::now();
    tree.plant_all(plants)?;
    let binary = tree.build(Build::Once)?;
    let built = began.elapsed();
    let jobs = arguments.jobs.unwrap_or_else(cores).max(1);
    let found = quick::look(&binary, plants, arguments.seeds, jobs)?;
    let is_well = quick::print(&found);
    let looked = began.elapsed().saturating_sub(built);
    println!("built in {:.0} s, looked for {:.0} s", built.as_secs_f64(), looked.as_secs_f64());
    Ok(is_well)
}

/// Plants one bug, builds, and hunts it.
fn look_for(arguments: &MutantsArguments, tree: &Tree, plant: Plant) -> Row {
    let began = Instant::now();
    let kind = if plant.is_counted { Build::Counted } else { Build::Optimised(plant.tier) };
    let built = tree.plant(&plant.path).and_then(|()| tree.build(kind));
    let build = began.elapsed();
    let bounds = Bounds {
        points: arguments.points,
        seeds: arguments.seeds,
        time: Duration::from_secs(arguments.seconds),
        jobs: arguments.jobs.unwrap_or_else(cores).max(1),
    };
    let hunt =
        built.map(|binary| Hunt { binary, tier: plant.tier, part: plant.part, bounds }.run());
    Row { plant, hunt, build, total: began.elapsed() }
}
