//! Names of hosts: whoever looks them up may hang, and nobody waits for that who has something else to do.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rondo::exchange::{Exchange, Names, Settings, SystemNames, Ways};
use rondo_core::exchange::Role;
use rondo_core::status::Code;

use crate::bed::{Bed, SOON, always, begin};

/// Hangs for a while whenever it is asked for a name, and knows what the system knows after that.
#[derive(Debug)]
struct Slow {
    takes: Mutex<Duration>,
    asked: AtomicUsize,
}

impl Slow {
    fn new(takes: Duration) -> Arc<Self> {
        Arc::new(Self { takes: Mutex::new(takes), asked: AtomicUsize::new(0) })
    }
}

impl Names for Slow {
    fn look_up(&self, name: &str) -> io::Result<SocketAddr> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let takes = *self.takes.lock().unwrap();
        std::thread::sleep(takes);
        SystemNames.look_up(name)
    }
}

/// The same place by a name.
fn named(bed: &Bed) -> String {
    bed.scheduler.address().replace("127.0.0.1", "localhost")
}

#[test]
fn a_scheduler_is_found_by_its_name() {
    let bed = Bed::new(1, 1, 1, Ways { unix: false, shared_bytes: 0 });
    let names = Slow::new(Duration::from_millis(50));
    let server = Settings {
        scheduler: named(&bed),
        host: "localhost".into(),
        names: Arc::<Slow>::clone(&names),
        ..bed.settings(Role::Server, 0)
    };
    let worker = Settings { names: Arc::<Slow>::clone(&names), ..bed.settings(Role::Worker, 0) };
    let server = std::thread::spawn(move || Exchange::start(server, &mut always));
    let worker = Exchange::start(worker, &mut always).unwrap();
    let server = server.join().unwrap().unwrap();
    // The server's name, too, is one that the worker looks up.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let units = server.get_batch(&mut always).unwrap();
            server.respond(units[0].handler, Vec::new()).unwrap();
        });
        let handler = begin(&worker, vec![crate::bed::numbers(1, &[1.0])], Vec::new()).unwrap();
        let since = rondo_core::exchange::worker::Since::Call;
        worker.wait(handler, Some(SOON), since, &mut always).unwrap();
    });
    assert!(names.asked.load(Ordering::Relaxed) >= 2);
}

#[test]
fn who_joins_where_names_hang_is_told_so_in_time_and_interrupted_at_once() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let names = Slow::new(Duration::from_secs(20));
    let settings = Settings {
        scheduler: named(&bed),
        names: Arc::<Slow>::clone(&names),
        lookup_timeout: Duration::from_millis(300),
        join_timeout: Some(Duration::from_secs(2)),
        ..bed.settings(Role::Worker, 0)
    };
    let began = Instant::now();
    let interrupted =
        Exchange::start(settings.clone(), &mut || began.elapsed() < Duration::from_millis(200));
    assert_eq!(interrupted.err().unwrap().status.code, Code::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let began = Instant::now();
    let refused = Exchange::start(settings, &mut always).err().unwrap();
    assert_eq!(refused.status.code, Code::DeadlineExceeded, "{refused}");
    assert!(refused.to_string().contains("not found within 300 ms (lookup_timeout)"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn calls_go_on_while_the_scheduler_is_away_and_its_name_hangs() {
    let mut bed = Bed::new(1, 1, 1, Ways { unix: false, shared_bytes: 0 });
    let names = Slow::new(Duration::ZERO);
    let of = |role| Settings {
        scheduler: named(&bed),
        names: Arc::<Slow>::clone(&names),
        ..bed.settings(role, 0)
    };
    let server = of(Role::Server);
    let server = std::thread::spawn(move || Exchange::start(server, &mut always));
    let worker = Exchange::start(of(Role::Worker), &mut always).unwrap();
    let server = server.join().unwrap().unwrap();
    let before = names.asked.load(Ordering::Relaxed);
    *names.takes.lock().unwrap() = Duration::from_secs(20);
    let settings = rondo_core::exchange::scheduler::Settings::default();
    bed.scheduler = rondo::exchange::Scheduler::start(settings, "127.0.0.1", 0, false).unwrap();
    let until = Instant::now() + SOON;
    while names.asked.load(Ordering::Relaxed) < before + 2 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                let units = server.get_batch(&mut always).unwrap();
                server.respond(units[0].handler, Vec::new()).unwrap();
            }
        });
        for _ in 0..50 {
            let handler = begin(&worker, vec![crate::bed::numbers(1, &[1.0])], Vec::new()).unwrap();
            let since = rondo_core::exchange::worker::Since::Call;
            worker.wait(handler, Some(SOON), since, &mut always).unwrap();
        }
    });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let began = Instant::now();
    drop((worker, server));
    assert!(began.elapsed() < Duration::from_secs(5), "nor does anybody wait for it at the end");
}
